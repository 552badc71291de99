"""Build random and damaged networks: each must build exactly or be refused in one line.

    .venv/bin/python tests/fuzz/fuzz_networks.py COUNT [FIRST_SEED]

Findings are written with their seeds; the exit code is 1 if there was one.
"""

from __future__ import annotations

import collections
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from exported_networks.exact import outcome
from exported_networks.grammar import SIZE, is_damaged, network


def main() -> int:
    """Build the networks of the seeds that the command line names."""
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    kinds: collections.Counter[str] = collections.Counter()
    findings = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        for seed in range(first, first + count):
            try:
                found = outcome(network(seed), Path(name), SIZE)
            except Exception:
                findings += 1
                print(f"seed {seed}:\n{traceback.format_exc()}", flush=True)
                continue
            kinds[found if found == "exact" else "refused"] += 1
            if found != "exact" and not is_damaged(seed):
                findings += 1
                print(f"seed {seed}: a sound network is refused: {found}", flush=True)
    text = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    print(f"{count} networks: {text}, {findings} findings in {time.monotonic() - began:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
