"""The tensors at the borders of stages, whose caches the host maintains for the accelerator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgepipe.partition.placement import Segment


def border_bytes(segments: Sequence[Segment], tensor_bytes: Mapping[str, int]) -> tuple[int, ...]:
    """Return for each segment the bytes of the tensors that it reads from elsewhere or passes on.

    A tensor that nothing reads is a result of the network and passed on, too. ``tensor_bytes`` are
    those between stages; a tensor without an entry has none.
    """
    made = {p.operator.output: n for n, part in enumerate(segments) for p in part.operators}
    reads = [{name for p in part.operators for name in p.operator.inputs} for part in segments]
    readers: dict[str, set[int]] = {name: set() for name in made}
    for number, names in enumerate(reads):
        for name in names & made.keys():
            readers[name].add(number)
    found = []
    for number, names in enumerate(reads):
        borders = {name for name in names if made.get(name) != number}
        borders |= {name for name, at in made.items() if at == number and readers[name] != {number}}
        found.append(sum(tensor_bytes.get(name, 0) for name in borders))
    return tuple(found)
