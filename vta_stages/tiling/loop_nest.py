"""The loops of a tiled kernel, and the uop loads that they cause."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from vta_stages.tiling.tiling import Tiling

SAMPLED_CHUNKS = 48
"""How many chunks are simulated to count the uop loads of a kernel."""

SequenceKey = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopNest:
    """The loops of a kernel: areas, chunks of output blocks, and the chunks of a tile's reduction.

    ``chunks`` has (source, uops of a sequence) for each chunk of the reduction. Each chunk is
    processed once per part of its source; ``parts`` counts them by source. ``areas_across`` of the
    ``areas`` lie side by side, and ``bias_slots`` is 0 without biases.
    """

    areas: int
    areas_across: int
    channel_chunks: int
    chunks: tuple[tuple[int, int], ...]
    parts: tuple[int, ...]
    folded: tuple[int, ...]
    bias_slots: int

    @property
    def tiles(self) -> int:
        """How many tiles the kernel has."""
        return self.areas * self.channel_chunks

    @property
    def iterations(self) -> int:
        """How often the innermost loop, over the chunks of a reduction, runs."""
        return self.tiles * max(len(self.chunks), 1)

    def uop_loads(self, tiling: Tiling, depth: int) -> tuple[float, float]:
        """Return how often uops are loaded into a buffer of ``depth`` uops, and how many uops.

        The first tiles are simulated. The others are assumed to behave like the later half of
        those.
        """
        sample = min(self.tiles, max(SAMPLED_CHUNKS // max(len(self.chunks), 1), 4))
        order: deque[tuple[SequenceKey, int]] = deque()
        resident: set[SequenceKey] = set()
        used = loads = uops = late_loads = late_uops = 0
        for tile in range(sample):
            for key, count in self._sequences(tile, tiling):
                if key in resident:
                    continue
                order.append((key, count))
                resident.add(key)
                used += count
                while used > depth:
                    oldest, freed = order.popleft()
                    resident.discard(oldest)
                    used -= freed
                loads += 1
                uops += count
                if tile >= sample // 2:
                    late_loads += 1
                    late_uops += count
        more = (self.tiles - sample) / max(sample - sample // 2, 1)
        return loads + late_loads * more, uops + late_uops * more

    def _sequences(self, tile: int, tiling: Tiling) -> Iterator[tuple[SequenceKey, int]]:
        """Yield the uop sequences of a tile with their lengths.

        Uops hold absolute indices, so each combination of slots needs its own sequence; the key
        says which combination it is.
        """
        area, channels = self._position(tile, tiling)
        pixels = tiling.rows * tiling.cols
        acc = tile % tiling.acc_slots
        yield (acc,), 2 * min(pixels, 512)
        # The biases of a chunk have a fixed place, or alternate between two slots.
        alternate = tiling.channels_outer and self.bias_slots != 1
        bias = channels % 2 if alternate else channels
        yield (acc, -1, bias), pixels if self.bias_slots else 0
        first_inp = (area if tiling.keep_inp else tile) * len(self.chunks)
        first_wgt = (channels if tiling.keep_wgt else tile) * len(self.chunks)
        for number, (source, count) in enumerate(self.chunks):
            inp = (first_inp + number) % tiling.inp_slots
            wgt = (first_wgt + number) % tiling.wgt_slots
            rim = self._rim(area) if source in self.folded else 0
            for part in range(self.parts[source]):
                # All parts except the first go to TEMP, which the accumulator slots share.
                yield (0 if part else acc, inp, wgt, source, part, rim), count

    def _position(self, tile: int, tiling: Tiling) -> tuple[int, int]:
        """Return the number of a tile's area and of its chunk of output blocks."""
        if tiling.channels_outer:
            channels, area = divmod(tile, self.areas)
        else:
            area, channels = divmod(tile, self.channel_chunks)
        return area, channels

    def _rim(self, area: int) -> int:
        """Return which rims of the output an area touches, one bit each; folds differ there."""
        row, col = divmod(area, self.areas_across)
        last_row, last_col = self.areas // self.areas_across - 1, self.areas_across - 1
        ends = (row == 0, row == last_row, col == 0, col == last_col)
        return sum(end << bit for bit, end in enumerate(ends))
