"""Readers of the live page that stop reading, on the machine of the program.

A tunnel would read for them, and keep megabytes of what it has read.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from bench.soak.ground import Ground, Program

# Each reader asks for more than both sockets can hold, and reads none of it. It writes spaces until
# the program has closed the connection, says how long that took, and comes again. It ends when
# nothing listens any more.
_SCRIPT = """
trap '' PIPE
stall() {{
  while exec 3<>/dev/tcp/127.0.0.1/{port}; do
    began=$SECONDS
    for ((i = 0; i < 400; ++i)); do
      printf 'GET /page.js HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n\\r\\n'
    done >&3
    while printf ' ' >&3; do sleep 0.2; done
    echo "dropped after $((SECONDS - began)) s"
  done
}}
for ((reader = 0; reader < {count}; ++reader)); do stall 2>/dev/null & done
wait
"""


class StalledReaders:
    """Readers that stop reading and come again when they have been dropped, until closed."""

    def __init__(self, ground: Ground, program: Program, *, count: int, output: Path) -> None:
        script = _SCRIPT.format(port=program.page_port, count=count)
        self._output = output
        self._process = ground.run_beside(script, output)

    @property
    def waits_s(self) -> list[int]:
        """How long each reader that was dropped had been connected, in whole seconds."""
        said = self._output.read_text(encoding="utf-8")
        return [int(seconds) for seconds in re.findall(r"dropped after (\d+) s", said)]

    def close(self) -> list[int]:
        """Stop counting and return ``waits_s``; the readers end with the program."""
        found = self.waits_s
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return found
