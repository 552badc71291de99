"""Read, change and write an accumulator element in every cycle, without a hazard."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from vta_rtl.buffers.accumulator_buffer import bank
from vta_rtl.buffers.ports import READ_CYCLES, read_port, write_port
from vta_stages.accelerator import Accelerator

_IN_FLIGHT = READ_CYCLES + 1
"""Results that are younger than the element a step reads: one in its register, one being written,
and one written after the element was read."""


class AccumulatorAccess(wiring.Component):
    """The last stages of GEMM and ALU steps: operands from the buffer, the result into it.

    In cycle T: ``valid``, ``dst`` and ``src`` In, the step's indices, with ``ready`` Out(1),
    without which the step waits. In cycle T + ``READ_CYCLES``:
    ``dst_value`` and ``src_value`` Out, the elements, to which the caller gives ``result`` In
    combinationally. In the cycle after that ``write`` writes it to ``dst``. ``busy`` Out is 1 from
    T to the write. ``read_dst``, ``read_src`` and ``write`` are ports of the accumulator buffer.

    A step that ``reads_src`` In(1) waits while the buffer cannot serve it: a result is being
    written to the bank that both of its elements are in. It waits ``READ_CYCLES + 1`` cycles at
    most.

    Steps may follow each other in every cycle and may name the same elements: the results that the
    buffer did not hold yet when it was read are forwarded, the youngest first.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._bits = 8 * accelerator.acc_bytes
        self._address_bits = ceil_log2(accelerator.acc_depth)
        read = Out(read_port(self._bits, accelerator.acc_depth))
        super().__init__(
            {
                "valid": In(1),
                "ready": Out(1),
                "reads_src": In(1),
                "dst": In(self._address_bits),
                "src": In(self._address_bits),
                "dst_value": Out(self._bits),
                "src_value": Out(self._bits),
                "result": In(self._bits),
                "busy": Out(1),
                "read_dst": read,
                "read_src": read,
                "write": Out(write_port(self._bits, accelerator.acc_depth)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        m.d.comb += [self.read_dst.address.eq(self.dst), self.read_src.address.eq(self.src)]

        taken = Signal()
        m.d.comb += taken.eq(self.valid & self.ready)
        steps = [(taken, self.dst, self.src)]
        for cycle in range(READ_CYCLES):
            step = (
                Signal(name=f"valid_{cycle}"),
                Signal(self._address_bits, name=f"dst_{cycle}"),
                Signal(self._address_bits, name=f"src_{cycle}"),
            )
            m.d.sync += [after.eq(before) for after, before in zip(step, steps[-1], strict=True)]
            steps.append(step)
        valid, dst, _ = steps[-1]

        results = [
            (
                Signal(name=f"result_valid_{age}"),
                Signal(self._address_bits, name=f"result_dst_{age}"),
                Signal(self._bits, name=f"result_{age}"),
            )
            for age in range(_IN_FLIGHT)
        ]
        for younger, older in zip([(valid, dst, self.result), *results], results, strict=False):
            m.d.sync += [after.eq(before) for after, before in zip(older, younger, strict=True)]

        # Which of the results a step needs is decided in the cycle before, when they are a cycle
        # younger.
        _, next_dst, next_src = steps[-2]
        younger_results = [(valid, dst), *(result[:2] for result in results[:-1])]
        for name, address, read, value in (
            ("dst", next_dst, self.read_dst.data, self.dst_value),
            ("src", next_src, self.read_src.data, self.src_value),
        ):
            choice = Signal(range(_IN_FLIGHT + 1), name=f"{name}_choice")
            m.d.sync += choice.eq(0)
            for age, (is_result, result_dst) in reversed(list(enumerate(younger_results))):
                with m.If(is_result & (result_dst == address)):
                    m.d.sync += choice.eq(age + 1)
            m.d.comb += value.eq(Array([read, *(result for _, _, result in results)])[choice])

        write_valid, write_dst, write_data = results[0]
        m.d.comb += [
            self.write.enable.eq(write_valid),
            self.write.address.eq(write_dst),
            self.write.data.eq(write_data),
            self.busy.eq(sum(step[0] for step in steps) + write_valid != 0),
            self.ready.eq(
                ~(
                    self.reads_src
                    & write_valid
                    & (bank(self.dst) == bank(self.src))
                    & (bank(self.dst) == bank(write_dst))
                    & (self.dst != self.src)
                )
            ),
        ]
        return m
