"""Write a program's manual page from its own help.

    python cross/debian/manual_page.py NAME VERSION OUTPUT.SECTION.gz COMMAND...

COMMAND runs the program; `--help` is added. A program without that option prints its usage.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path


def page(name: str, version: str, section: str, text: str) -> str:
    """Return the page in man(7)'s language, with ``text`` as it is."""
    lines = (line.replace("\\", "\\e").replace("-", "\\-") for line in text.splitlines())
    body = "\n".join(f"\\&{line}" for line in lines)
    return (
        f'.TH {name.upper()} {section} "" "edgepipe {version}"\n'
        f".SH NAME\n{name} \\- part of edgepipe, neural networks on FPGA SoC boards\n"
        f".SH DESCRIPTION\n.nf\n{body}\n.fi\n"
    )


def main(name: str, version: str, output: Path, command: list[str]) -> None:
    """Run the program and write its page."""
    done = subprocess.run(
        [*command, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    text = done.stdout or done.stderr
    if not text:
        raise SystemExit(f"{name}: found no help, expected it from {command}")
    section = output.suffixes[-2].removeprefix(".")
    content = page(name, version, section, text).encode()
    output.write_bytes(gzip.compress(content, 9, mtime=0))


if __name__ == "__main__":
    if len(sys.argv) < 5:
        raise SystemExit(
            "usage: python cross/debian/manual_page.py NAME VERSION OUTPUT.SECTION.gz COMMAND..."
        )
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
