"""All proofs, in the order in which they are run."""

from __future__ import annotations

from functools import partial

from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import MemoryType

from . import bursts, handshakes, instructions, queues, stores, window
from .proof import Method, Mutation, Proof

_STOCK = Accelerator()
_TOKENS = "vta_rtl.queues.token_queue"
_COMMANDS = "vta_rtl.queues.command_queue"
_CONTROL = "vta_rtl.modules.instruction_control"
_OVERLAPPED = "vta_rtl.modules.overlapped_control"
_FETCH = "vta_rtl.modules.fetch"
_PLANNER = "vta_rtl.dram.burst_planner"
_STORER = "vta_rtl.dram.storer"
_WINDOW = "vta_rtl.dram.window"
_LITE = "vta_rtl.registers.axi_lite"

PROOFS = (
    Proof(
        name="token queue",
        says="as many tokens as were pushed and neither popped nor cleared; never more than depth",
        build=partial(queues.tokens, _STOCK.token_queue_depth),
        method=Method.INDUCTION,
        depth=1,
        reach_cycles=6,
        mutations=(Mutation(_TOKENS, "m.Elif(popped & ~pushed)", "m.Elif(popped)"),),
    ),
    Proof(
        name="small token queue",
        says="the same, seen full",
        build=partial(queues.tokens, 2),
        method=Method.INDUCTION,
        depth=1,
        reach_cycles=6,
        parameters="2 tokens",
        # The stock queue's 1025th token is too far from reset to be pushed by a solver.
        mutations=(Mutation(_TOKENS, "count != self._depth)", "1)"),),
    ),
    Proof(
        name="command queue",
        says="instructions leave once, in order, unchanged, at once",
        build=partial(queues.commands, _STOCK.command_queue_depth),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=8,
    ),
    Proof(
        name="small command queue",
        says="the same, seen full",
        build=partial(queues.commands, 3),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=8,
        parameters="3 instructions",
        mutations=(Mutation(_COMMANDS, "fifo.level == 0", "~fifo.r_rdy"),),
    ),
    Proof(
        name="tokens of instructions",
        says="an instruction pops its tokens, runs once, pushes its tokens; without an abort",
        build=instructions.control,
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=8,
        mutations=(
            Mutation(_CONTROL, "command.valid & done[0] & done[1]", "command.valid & done[0]"),
            Mutation(_CONTROL, "with m.If(~self.busy):", "with m.If(1):"),
        ),
    ),
    Proof(
        name="tokens of instructions that overlap",
        says="a token leaves when its instruction and all before it have ended; without an abort",
        build=instructions.overlapped,
        method=Method.BOUNDED,
        depth=8,
        reach_cycles=8,
        mutations=(
            Mutation(_OVERLAPPED, "begun.r_rdy & (ended[oldest] != 0)", "begun.r_rdy"),
            Mutation(_OVERLAPPED, "& free[self.unit]", "& 1"),
            Mutation(_OVERLAPPED, "- (retires & (oldest == number))", "- retires"),
        ),
    ),
    *(
        Proof(
            name=f"bursts, {bus_bytes} bytes",
            says="within 4 KiB, at most 16 beats; all beats of all rows, each once",
            build=partial(bursts.bursts, bus_bytes),
            method=Method.INDUCTION,
            depth=2,
            reach_cycles=5,
            mutations=(
                Mutation(
                    _PLANNER, "BOUNDARY_BYTES.bit_length() - 1]", "BOUNDARY_BYTES.bit_length()]"
                ),
                Mutation(_PLANNER, "is_short & (left <= room)", "is_short & (left < room)"),
                Mutation(_PLANNER, "running.eq(rows_left != 1)", "running.eq(rows_left != 0)"),
            )
            if bus_bytes == 16
            else (),
        )
        for bus_bytes in (8, 16)
    ),
    Proof(
        name="fetch's requests",
        says="AXI: an offer stays; room for all beats that are asked for",
        build=partial(handshakes.fetch, 16),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=5,
        mutations=(Mutation(_FETCH, "asked <= _BEATS - BURST_BEATS", "asked <= _BEATS - 1"),),
    ),
    Proof(
        name="load's requests",
        says="AXI: an offer stays",
        build=partial(handshakes.load, (MemoryType.INP,), 16),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=5,
    ),
    Proof(
        name="load's requests of weights",
        says="AXI: an offer stays",
        build=partial(handshakes.load, (MemoryType.WGT,), 16),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=5,
    ),
    Proof(
        name="compute's requests",
        says="AXI: an offer stays",
        build=partial(handshakes.load, (MemoryType.UOP, MemoryType.ACC), 16),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=5,
        mutations=(
            Mutation(
                _PLANNER,
                "self.bursts.valid.eq(running)",
                "self.bursts.valid.eq(running & self.bursts.ready)",
            ),
            Mutation(_PLANNER, "m.Elif(running & self.bursts.ready)", "m.Elif(running)"),
        ),
    ),
    Proof(
        name="store's addresses and data",
        says="AXI: an offer stays",
        build=partial(handshakes.store, 16),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=8,
        mutations=(
            Mutation(
                _STORER,
                "elements.r_rdy & lengths.r_rdy",
                "elements.r_rdy & lengths.r_rdy & self.bus.w.ready",
            ),
            Mutation(_STORER, "addresses.r_en.eq(self.bus.aw.ready)", "addresses.r_en.eq(1)"),
        ),
    ),
    Proof(
        name="ports for reads",
        says="AXI: an offer stays, also while the window or an abort changes",
        build=partial(handshakes.read_guard, 16),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=6,
        mutations=(Mutation(_WINDOW, "offered | (inside &", "(inside &"),),
    ),
    Proof(
        name="port for writes",
        says="the same",
        build=partial(handshakes.write_guard, 16),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=8,
    ),
    Proof(
        name="registers' answers",
        says="AXI-Lite: an answer stays",
        build=handshakes.registers,
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=6,
        mutations=(Mutation(_LITE, "~has_answer | bus.r.ready", "1"),),
    ),
    Proof(
        name="window of reads",
        says="no burst with a byte outside is offered to a port; its master gets its beats",
        build=partial(window.reads, 16),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=6,
        mutations=(
            Mutation(_WINDOW, "behind <= near", "1"),
            Mutation(
                _WINDOW, "master.r.payload.last.eq(beats_left == 0)", "master.r.payload.last.eq(1)"
            ),
        ),
    ),
    Proof(
        name="window of writes",
        says="no burst with a byte outside is offered to a port",
        build=partial(window.writes, 16),
        method=Method.INDUCTION,
        depth=2,
        reach_cycles=8,
        mutations=(
            Mutation(_WINDOW, "addresses.w_en.eq(taken & inside)", "addresses.w_en.eq(taken)"),
        ),
    ),
    Proof(
        name="data of writes",
        says="data reach the port if and only if their address passed",
        build=partial(window.data_of_writes, 8),
        method=Method.BOUNDED,
        depth=7,
        reach_cycles=5,
        mutations=(Mutation(_WINDOW, "passing.w_data.eq(inside)", "passing.w_data.eq(1)"),),
    ),
    Proof(
        name="no lost store",
        says="a STORE writes each of its beats once, with its value, before it ends; last is right",
        build=partial(stores.stores, 8),
        method=Method.BOUNDED,
        depth=11,
        reach_cycles=10,
        parameters="block 8, 8-byte bus, at most 3 elements, low addresses",
        mutations=(
            # Not what `reading` consists of: while an element is on its way its burst has no
            # answer, so `unanswered` alone keeps the storer busy, too.
            Mutation(_STORER, "elements.r_rdy | (unanswered != 0)", "elements.r_rdy"),
            Mutation(
                _STORER,
                "address.eq(address + 1), x.eq(x + 1)",
                "address.eq(address + (x != store.x_size)), x.eq(x + 1)",
            ),
            Mutation(_STORER, "x.eq(1), y.eq(y + 1)", "x.eq(0), y.eq(y + 1)"),
            Mutation(_STORER, "ends_burst = beat == lengths.r_data", "ends_burst = beat == 1"),
        ),
    ),
)
