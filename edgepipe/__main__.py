"""``python -m edgepipe`` is the ``edgepipe`` command."""

import sys

from edgepipe.cli.entry import main

sys.exit(main())
