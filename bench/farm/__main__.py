"""200 simulated boards at one tracker: requests by key, killed clients, and load until it breaks.

Boards, tracker and clients share this machine. The load is the number of clients that ask at the
same time; each holds its board for a while. It doubles until a client has no session in time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from bench.farm import clients, ground
from bench.figures import Figure, publish

KINDS = {"ultra96": 150, "pynq": 50}
KILLED = 40
LOADS = (50, 100, 200, 400, 800, 1600, 3200)
PATIENCE_S = 10.0  # of a client: that of edgepipe.rpc
HOLD_S = 0.5
# A farm of this size must serve a client for every second board at once.
LEAST_LOAD = 100
MOST_FREE_S = 10.0


def main() -> int:
    """Measure, print and write the figures; return 1 if one misses its limit."""
    figures = [*measured(tvms_own=True), *measured(tvms_own=False)]
    print(f"{os.cpu_count()} processors, shared by boards, tracker and clients")
    return publish("farm", figures)


def measured(*, tvms_own: bool) -> list[Figure]:
    """Return the figures of a farm with TVM's own tracker, or with `edgepipe rpc tracker`.

    Only the latter have limits.
    """
    name = "TVM's tracker" if tvms_own else "edgepipe rpc tracker"
    with (
        tempfile.TemporaryDirectory() as folder,
        ground.running(KINDS, Path(folder), tvms_own=tvms_own) as farm,
    ):
        figures = [
            Figure(name=f"{name}: {sum(KINDS.values())} boards up", value=farm.started_s, unit="s"),
            Figure(name=f"{name}: memory of a board", value=farm.board_mib(), unit="MiB"),
        ]
        clients.killed(farm.tracker, "ultra96", KILLED)
        figures.append(
            Figure(
                name=f"{name}: boards of {KILLED} killed clients free again",
                value=farm.wait_until_free(),
                unit="s",
                at_most=None if tvms_own else MOST_FREE_S,
            )
        )
        good, broken, wrong = 0, "", 0
        for load in LOADS:
            found = clients.at_once(
                farm.address, farm.ports, load, patience_s=PATIENCE_S, hold_s=HOLD_S
            )
            wrong += found.wrong_kind
            said = ", ".join(f"{count} clients: {why}" for why, count in found.failures.items())
            print(
                f"{name}: {load} clients at once: {len(found.seconds)} served in "
                f"{found.took_s:.1f} s" + (f"; {said}" if said else ""),
                file=sys.stderr,
                flush=True,
            )
            if found.failures:
                ((why, _),) = found.failures.most_common(1)
                lost = found.failures.total()
                broken = f"breaks at {load}: {lost} not served, most: {why}"
                break
            good = load
            figures += [
                Figure(name=f"{name}: {load} clients, {what}", value=found.quantile(part), unit="s")
                for what, part in (("median", 0.5), ("99 %", 0.99))
            ]
            farm.wait_until_free()
        figures += [
            Figure(
                name=f"{name}: clients at once, all served",
                value=good,
                unit="clients",
                at_least=None if tvms_own else LEAST_LOAD,
                source=broken or "the largest load tried",
            ),
            Figure(name=f"{name}: boards of a wrong kind", value=wrong, unit="", at_most=0),
            Figure(name=f"{name}: clients refused", value=farm.refused(), unit="", at_most=0),
        ]
    return figures


if __name__ == "__main__":
    sys.exit(main())
