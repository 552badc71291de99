"""Beats of a bus to elements of a buffer."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2


class ElementGatherer(wiring.Component):
    """Elements of one or more whole beats.

    Members: ``beat`` In, a stream of 8 * ``bus_bytes`` bits; ``element`` Out, a stream of
    8 * ``element_bytes`` bits, the first beat lowest. The last beat of an element goes straight
    through.
    """

    def __init__(self, element_bytes: int, bus_bytes: int) -> None:
        self._beats = element_bytes // bus_bytes
        self._beat_bits = 8 * bus_bytes
        super().__init__(
            {
                "beat": In(stream.Signature(8 * bus_bytes)),
                "element": Out(stream.Signature(8 * element_bytes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        earlier = [Signal(self._beat_bits, name=f"beat_{n}") for n in range(self._beats - 1)]
        count = Signal(range(max(2, self._beats)))
        is_last = count == self._beats - 1
        m.d.comb += [
            self.element.payload.eq(Cat(*earlier, self.beat.payload)),
            self.element.valid.eq(self.beat.valid & is_last),
            self.beat.ready.eq(~is_last | self.element.ready),
        ]
        with m.If(self.beat.valid & self.beat.ready):
            m.d.sync += count.eq(count + 1)
            with m.If(is_last):
                m.d.sync += count.eq(0)
            for before, after in zip(earlier, [*earlier[1:], self.beat.payload], strict=False):
                with m.If(~is_last):
                    m.d.sync += before.eq(after)
        return m


class ElementSplitter(wiring.Component):
    """Elements of which a beat holds several, from any place of the first beat on.

    Members: ``beat`` In and ``element`` Out, streams; ``start`` In(1), in a cycle without elements:
    ``first`` In is the place of the first element in the first beat; ``is_last`` In(1) marks the
    last element, after which the rest of its beat is dropped. With ``rest_too`` In(1), the caller
    takes the rest of the beat together with an element, from ``beat.payload``.
    """

    def __init__(self, element_bytes: int, bus_bytes: int) -> None:
        self.elements_per_beat = bus_bytes // element_bytes
        self._element_bits = 8 * element_bytes
        super().__init__(
            {
                "start": In(1),
                "first": In(ceil_log2(self.elements_per_beat)),
                "is_last": In(1),
                "rest_too": In(1),
                "beat": In(stream.Signature(8 * bus_bytes)),
                "element": Out(stream.Signature(8 * element_bytes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        place = Signal(range(self.elements_per_beat))
        layout = data.ArrayLayout(self._element_bits, self.elements_per_beat)
        parts = data.View(layout, self.beat.payload)
        ends_beat = (place == self.elements_per_beat - 1) | self.is_last | self.rest_too
        m.d.comb += [
            self.element.payload.eq(parts[place]),
            self.element.valid.eq(self.beat.valid),
            self.beat.ready.eq(self.element.ready & ends_beat),
        ]
        with m.If(self.start):
            m.d.sync += place.eq(self.first)
        with m.Elif(self.element.valid & self.element.ready):
            m.d.sync += place.eq(Mux(self.rest_too, 0, place + 1))
        return m
