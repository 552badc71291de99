"""The contiguous memory that a pipeline needs on a board, and how many slots fit into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgepipe.boards import Board
from edgepipe.bundle.buffers import aligned
from edgepipe.errors import PartitionError
from edgepipe.partition.depthwise import MEBIBYTE
from edgepipe.progress import Progress
from vta_stages.program import Program, RegionKind

INSTRUCTION_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Contiguous:
    """Contiguous memory: ``shared_bytes`` once, and ``slot_bytes`` for every frame in flight."""

    shared_bytes: int = 0
    slot_bytes: int = 0

    def with_slots(self, slots: int) -> int:
        """Return the bytes of a pipeline with this many slots."""
        return self.shared_bytes + slots * self.slot_bytes


def program_memory(program: Program) -> Contiguous:
    """Return what a VTA stage needs: constants and scratch once, and instructions in every slot."""
    shared = (RegionKind.CONST, RegionKind.SCRATCH)
    return Contiguous(
        shared_bytes=sum(aligned(r.bytes) for r in program.regions if r.kind in shared),
        slot_bytes=aligned(len(program.instructions) * INSTRUCTION_BYTES),
    )


def pipeline_memory(programs: Iterable[Contiguous], buffers: Iterable[int]) -> Contiguous:
    """Return what a pipeline needs: its ``programs``, and in every slot its ``buffers``' bytes."""
    parts = list(programs)
    return Contiguous(
        shared_bytes=sum(part.shared_bytes for part in parts),
        slot_bytes=sum(part.slot_bytes for part in parts) + sum(buffers),
    )


def slots_that_fit(
    memory: Contiguous,
    stages: Sequence[object],
    board: Board,
    progress: Progress,
    wanted: int | None = None,
) -> int:
    """Return the number of frames in flight: ``wanted``, or fewer with a notice.

    ``wanted`` is the board's usual number by default. Raises ``PartitionError`` if the board's
    contiguous memory is too small for one frame.
    """
    slots = fitting_slots(memory, stages, board, wanted)
    usual = wanted or board.slots(len(stages))
    if slots < usual:
        progress.notice(
            f"{slots} frames in flight instead of {usual}, which would need "
            f"{memory.with_slots(usual) / MEBIBYTE:.0f} MiB of contiguous memory; "
            f"{board.name} has {board.dma_bytes / MEBIBYTE:.0f}"
        )
    return slots


def fitting_slots(
    memory: Contiguous, stages: Sequence[object], board: Board, wanted: int | None = None
) -> int:
    """Return the slots ``wanted``, by default the board's usual number for so many stages, or as
    many as fit.

    Raises ``PartitionError`` if not even one frame fits into the board's memory.
    """
    usual = wanted or board.slots(len(stages))
    if not memory.slot_bytes:
        return usual
    if excess_bytes(memory, board) > 0:
        raise PartitionError(
            f"the pipeline needs {memory.with_slots(1) / MEBIBYTE:.0f} MiB of contiguous memory "
            f"for one frame ({memory.shared_bytes / MEBIBYTE:.0f} MiB of weights and scratch "
            f"memory), expected at most {board.dma_bytes / MEBIBYTE:.0f} MiB on {board.name}",
            hint="reserve more contiguous memory and set dma_bytes in the board's file, "
            "use smaller pictures, or place more operators on arm",
        )
    return min(usual, (board.dma_bytes - memory.shared_bytes) // memory.slot_bytes)


def excess_bytes(memory: Contiguous, board: Board) -> int:
    """Return the bytes that one frame needs beyond the board's contiguous memory, or at most 0."""
    return memory.with_slots(1) - board.dma_bytes
