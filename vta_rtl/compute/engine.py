"""GEMM and ALU instructions, from the loops to the accumulator and out buffers."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.buffers.ports import READ_CYCLES, read_port, write_port
from vta_rtl.compute.accumulator_access import AccumulatorAccess
from vta_rtl.compute.alu_part import AluPart
from vta_rtl.compute.dot_product import DotProduct, product_cycles
from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.compute.extended_alu import alu_of
from vta_rtl.compute.step_queue import StepQueue
from vta_rtl.compute.step_sequencer import STEP_CYCLES, StepSequencer
from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout
from vta_stages.accelerator import Accelerator, Extension
from vta_stages.isa.instructions import Opcode


def latency_cycles(accelerator: Accelerator) -> int:
    """Return the cycles that an instruction takes in addition to one for each step that does not
    wait for a bank of the accumulator buffer."""
    # The first uop and its indices, the operands' read, the products, the result's write.
    return STEP_CYCLES + READ_CYCLES + product_cycles(accelerator) + 1


class Engine(wiring.Component):
    """Runs one GEMM or ALU instruction at a time, at one step a cycle.

    Members: ``start`` In(1), for one cycle in which ``busy`` is 0; ``instruction`` In(128), which
    the caller holds until ``busy`` Out(1) is 0 again; ports of the buffers: ``uop``, ``inp``,
    ``wgt``, ``acc_dst`` and ``acc_src`` to read, ``acc`` and ``out`` to write.

    An instruction of n steps is busy for n + ``latency_cycles(accelerator)``, and for as long as
    steps of a vector operation have to wait (``AccumulatorAccess``). The next instruction sees
    all of its results. The low 8 bits of each result also go to the same index of the out buffer;
    an ALU instruction with ``reset`` then leaves zeros, where the accelerator can (CLEAR).
    Steps of an instruction may use the same accumulators at any distance: they act as if run one
    by one. ``stop`` In(1) ends an instruction after the steps that have begun.
    """

    def __init__(
        self, accelerator: Accelerator, *, cell: ProductCell = ProductCell.BEHAVIOURAL
    ) -> None:
        self._accelerator = a = accelerator
        self._cell = cell
        acc = read_port(8 * a.acc_bytes, a.acc_depth)
        super().__init__(
            {
                "start": In(1),
                "stop": In(1),
                "instruction": In(INSTRUCTION_BITS),
                "busy": Out(1),
                "uop": Out(read_port(8 * a.uop_bytes, a.uop_depth)),
                "inp": Out(read_port(8 * a.inp_bytes, a.inp_depth)),
                "wgt": Out(read_port(8 * a.wgt_bytes, a.wgt_depth)),
                "acc_dst": Out(acc),
                "acc_src": Out(acc),
                "acc": Out(write_port(8 * a.acc_bytes, a.acc_depth)),
                "out": Out(write_port(8 * a.out_bytes, a.out_depth)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        a = self._accelerator
        m.submodules.sequencer = sequencer = StepSequencer(a)
        m.submodules.dot_product = dot_product = DotProduct(a, cell=self._cell)
        m.submodules.access = access = AccumulatorAccess(a)
        m.submodules.vector_alu = alu = alu_of(a, self._cell)
        wiring.connect(m, sequencer.uop, wiring.flipped(self.uop))
        wiring.connect(m, access.read_dst, wiring.flipped(self.acc_dst))
        wiring.connect(m, access.read_src, wiring.flipped(self.acc_src))
        wiring.connect(m, access.write, wiring.flipped(self.acc))
        m.d.comb += [
            sequencer.start.eq(self.start),
            sequencer.stop.eq(self.stop),
            sequencer.instruction.eq(self.instruction),
            alu.instruction.eq(self.instruction),
            self.inp.address.eq(sequencer.src),
            self.wgt.address.eq(sequencer.wgt),
            dot_product.inp.eq(self.inp.data),
            dot_product.wgt.eq(self.wgt.data),
        ]

        # Inputs and accumulators are read in the same time, so the latter wait for the products.
        m.submodules.steps = steps = StepQueue(
            dst_bits=len(access.dst),
            src_bits=len(access.src),
            cycles=product_cycles(a),
            most_after_hold=STEP_CYCLES,
        )
        operation = data.View(instruction_layout(a, Opcode.ALU), self.instruction)
        m.d.comb += [
            steps.valid.eq(sequencer.valid),
            steps.dst.eq(sequencer.dst),
            steps.src.eq(sequencer.src),
            sequencer.hold.eq(steps.hold),
            access.valid.eq(steps.next_valid),
            access.dst.eq(steps.next_dst),
            access.src.eq(steps.next_src),
            steps.next_ready.eq(access.ready),
            access.reads_src.eq((operation.opcode == Opcode.ALU) & ~operation.use_imm),
            self.busy.eq(sequencer.busy | steps.busy | access.busy),
        ]

        self._connect_result(m, dot_product, alu, access)
        return m

    def _connect_result(
        self,
        m: Module,
        dot_product: DotProduct,
        alu: AluPart,
        access: AccumulatorAccess,
    ) -> None:
        a = self._accelerator
        gemm = data.View(instruction_layout(a, Opcode.GEMM), self.instruction)
        lanes = a.batch * a.block_out
        element = data.ArrayLayout(signed(32), lanes)
        old, result = data.View(element, access.dst_value), Signal(element)
        m.d.comb += [alu.dst.eq(access.dst_value), alu.src.eq(access.src_value)]
        for lane in range(lanes):
            added = old[lane] + dot_product.sums[lane // a.block_out][lane % a.block_out]
            product = Mux(gemm.reset, 0, added)
            m.d.comb += result[lane].eq(Mux(gemm.opcode == Opcode.ALU, alu.result[lane], product))
        low_bytes = Signal(8 * a.out_bytes)
        if a.has(Extension.CLEAR):
            # The buffer gets zeros, and so do later steps, but what goes out is the result.
            clears = (gemm.opcode == Opcode.ALU) & gemm.reset
            m.d.comb += access.result.eq(Mux(clears, 0, result.as_value()))
            m.d.sync += low_bytes.eq(_low_bytes(result, lanes))
        else:
            m.d.comb += access.result.eq(result)
            m.d.comb += low_bytes.eq(_low_bytes(data.View(element, access.write.data), lanes))
        m.d.comb += [
            self.out.enable.eq(access.write.enable),
            self.out.address.eq(access.write.address),
            self.out.data.eq(low_bytes),
        ]


def _low_bytes(values: data.View, lanes: int) -> Value:
    """Return the low 8 bits of all lanes of an accumulator element."""
    return Cat(values[lane].as_unsigned()[:8] for lane in range(lanes))
