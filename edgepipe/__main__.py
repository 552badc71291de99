"""``python -m edgepipe`` is the ``edgepipe`` command."""

import sys

from edgepipe.cli.main import main

sys.exit(main())
