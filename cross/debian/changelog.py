"""Write Debian's changelog of a release from CHANGELOG.md.

    python cross/debian/changelog.py VERSION CHANGELOG.md OUTPUT.gz

Debian's form needs an entry for the package's version; the text is in CHANGELOG.md. The date is
that of the last release there, so that equal files give equal packages.
"""

from __future__ import annotations

import gzip
import re
import sys
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

MAINTAINER = "The edgepipe developers <maintainers@edgepipe.invalid>"


def entry(version: str, changes: str) -> str:
    """Return the entry of ``version``; raise ``SystemExit`` if ``changes`` dates no release."""
    dated = re.search(r"^## \S+ \((\d{4})-(\d{2})-(\d{2})\)", changes, re.MULTILINE)
    if dated is None:
        raise SystemExit(
            "CHANGELOG.md: found no dated release, expected a line `## VERSION (DATE)`"
        )
    year, month, day = map(int, dated.groups())
    date = format_datetime(datetime(year, month, day, tzinfo=UTC))
    return (
        f"edgepipe ({version}) unstable; urgency=medium\n\n"
        f"  * New release; CHANGELOG.md of its sources lists the changes.\n\n"
        f" -- {MAINTAINER}  {date}\n"
    )


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit("usage: python cross/debian/changelog.py VERSION CHANGELOG.md OUTPUT.gz")
    text = entry(sys.argv[1], Path(sys.argv[2]).read_text())
    Path(sys.argv[3]).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
