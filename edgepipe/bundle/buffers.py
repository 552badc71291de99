"""The buffers of a slot: which tensors of a frame share one because they are never needed at once.

The runtime plans its slots by the same rules (``cpp_runtime/src/pipeline/buffer_plan.h``), so a
build knows the memory that a pipeline will take. A tensor's memory is used again once every stage
that writes or reads it has finished, in any order in which threads may run the stages. ARM and VTA
stages never write to the same buffer: without coherent caches, lines that the CPU wrote for an
earlier tensor could be written back over the accelerator's results.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from edgepipe.bundle.manifest import Manifest, Tensor

ALIGNMENT_BYTES = 4096  # DeviceMemory::kAlignment of the C++ runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTensors:
    """A stage's device ("arm" or "vta"), and the tensors that it reads and writes."""

    device: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Life:
    writer: int
    users: frozenset[int]


def plan_buffers(
    stages: Sequence[StageTensors], tensor_bytes: Mapping[str, int], kept: Collection[str]
) -> tuple[tuple[str, ...], ...]:
    """Return the tensors of each buffer of a frame, the largest first.

    ``stages`` are in the order of running. ``tensor_bytes`` has every tensor, in the manifest's
    order. Those in ``kept`` (the inputs and outputs of the network), and those that no stage
    writes, have buffers of their own.
    """
    lives = _lives(stages)
    before = _ancestors(stages)

    def ends_before(one: _Life, other: _Life) -> bool:
        return one.users <= before[other.writer]

    def fit(one: str, other: str) -> bool:
        mine, its = lives[one], lives[other]
        if stages[mine.writer].device != stages[its.writer].device:
            return False
        return ends_before(mine, its) or ends_before(its, mine)

    buffers: list[list[str]] = []
    # Large tensors first, so that a buffer has the size of its first tensor.
    for name in sorted(tensor_bytes, key=lambda name: -tensor_bytes[name]):
        shares = name in lives and name not in kept
        room = [
            members
            for members in buffers
            if shares
            and members[0] in lives
            and members[0] not in kept
            and all(fit(name, member) for member in members)
        ]
        if room:
            room[0].append(name)
        else:
            buffers.append([name])
    return tuple(tuple(members) for members in buffers)


def slot_buffers(
    stages: Sequence[StageTensors], tensors: Mapping[str, Tensor], kept: Collection[str]
) -> dict[tuple[str, ...], int]:
    """Return the tensors of each buffer, the largest first, with the buffer's bytes: whole pages.

    The arguments are those of ``plan_buffers``.
    """
    sizes = {name: tensor.bytes for name, tensor in tensors.items()}
    return {members: aligned(sizes[members[0]]) for members in plan_buffers(stages, sizes, kept)}


def manifest_buffers(manifest: Manifest) -> dict[tuple[str, ...], int]:
    """Return the tensors of each buffer of a bundle's slot, with the buffer's bytes."""
    stages = [
        StageTensors(device=stage.kind, reads=stage.inputs, writes=stage.outputs)
        for stage in manifest.stages
    ]
    tensors = {tensor.name: tensor for tensor in manifest.tensors}
    return slot_buffers(stages, tensors, {*manifest.inputs, *manifest.outputs})


def aligned(size_bytes: int) -> int:
    """Return the bytes that a buffer of ``size_bytes`` takes: whole pages, at least one."""
    return -(-max(size_bytes, 1) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _lives(stages: Sequence[StageTensors]) -> dict[str, _Life]:
    writers = {name: number for number, stage in enumerate(stages) for name in stage.writes}
    users: dict[str, set[int]] = {name: {number} for name, number in writers.items()}
    for number, stage in enumerate(stages):
        for name in stage.reads:
            if name in users:
                users[name].add(number)
    return {
        name: _Life(writer=writers[name], users=frozenset(found)) for name, found in users.items()
    }


def _ancestors(stages: Sequence[StageTensors]) -> list[frozenset[int]]:
    """Return for each stage those that have finished before it begins, whatever threads run it."""
    writers = {name: number for number, stage in enumerate(stages) for name in stage.writes}
    before: list[frozenset[int]] = []
    for stage in stages:
        own = {writers[name] for name in stage.reads if name in writers}
        own = {writer for writer in own if writer < len(before)}  # a damaged manifest has others
        before.append(frozenset(own.union(*(before[writer] for writer in own))))
    return before
