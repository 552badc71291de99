"""A program of the compiler gives its layers' reference on the hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from amaranth.sim import SimulatorContext
from dram_model import DramModel
from rtl_simulation import simulate

from vta_rtl.device import VtaDevice
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.isa.instructions import INSTRUCTION_BYTES, AluOp, Opcode
from vta_stages.isa.layout import activation_shape, pack_activation, unpack_activation
from vta_stages.layers.records import Conv, Epilogue, Layer, Product, TensorSpec
from vta_stages.layers.reference import run_layers
from vta_stages.program import Program

ACCELERATOR = Accelerator(
    revision="0.0.2",
    block_in=8,
    block_out=8,
    uop_buffer_bytes_log2=12,
    inp_buffer_bytes_log2=11,
    wgt_buffer_bytes_log2=12,
    acc_buffer_bytes_log2=12,
    command_queue_depth=4,
    token_queue_depth=2,
)
"""Small buffers and queues, so that a small layer has many tiles, and fetch often waits."""

RECTANGULAR = replace(ACCELERATOR, block_in=16, inp_buffer_bytes_log2=12, wgt_buffer_bytes_log2=13)
MOST_CYCLES = 100_000


def conv(draw: np.random.Generator, name: str, source: TensorSpec, stride: int) -> Conv:
    """Return a 3x3 convolution to 16 channels with a bias, a shift per channel and a clip."""
    channels, side = 16, (source.height - 1) // stride + 1
    return Conv(
        name=name,
        input=source,
        output=TensorSpec(name=f"{name}.out", channels=channels, height=side, width=side),
        weight=draw.integers(-128, 128, (channels, source.channels, 3, 3)).astype(np.int8),
        epilogue=Epilogue(
            bias=draw.integers(-4000, 4000, channels).astype(np.int32),
            shift=draw.integers(8, 11, channels).astype(np.int32),
            low=0,
            high=127,
        ),
        stride=(stride, stride),
        padding=(1, 1, 1, 1),
    )


def product(draw: np.random.Generator, name: str, first: TensorSpec, second: TensorSpec) -> Product:
    """Return a product of two tensors, which ``first`` is broadcast for."""
    channels = second.channels
    return Product(
        name=name,
        first=first,
        second=second,
        output=replace(second, name=f"{name}.out"),
        factor=draw.integers(-127, 128, channels).astype(np.int32),
        epilogue=Epilogue(
            bias=draw.integers(-4000, 4000, channels).astype(np.int32),
            shift=np.full(channels, 12, np.int32),
            low=-128,
            high=127,
        ),
    )


def placed(program: Program, contents: dict[str, bytes]) -> tuple[dict[str, int], np.ndarray]:
    """Return the regions' addresses and uint8 DRAM with contents and, at its end, instructions."""
    sizes = [-(-region.bytes // 4096) * 4096 for region in program.regions]
    addresses = [0, *accumulate(sizes)]
    bases = dict(zip((region.name for region in program.regions), addresses, strict=False))
    dram = np.zeros(addresses[-1] + len(program.instructions) * INSTRUCTION_BYTES, np.uint8)
    for name, content in contents.items():
        dram[bases[name] :][: len(content)] = np.frombuffer(content, np.uint8)
    dram[addresses[-1] :] = program.relocate(bases).view(np.uint8).ravel()
    return bases, dram


def check_on_hardware(
    a: Accelerator,
    layers: Sequence[Layer],
    picture: TensorSpec,
    *,
    shared_port: bool = False,
) -> Program:
    """Compile layers, run them in Amaranth's simulator and compare the last output's bits."""
    draw = np.random.default_rng(21)
    tensor = draw.integers(-128, 128, (picture.channels, picture.height, picture.width), np.int8)
    spec = layers[-1].output
    expected = run_layers(layers, {picture.name: tensor})[spec.name]

    program = compile_program(a, layers, [picture.name], [spec.name])
    (consts,) = (region.name for region in program.regions if region.kind == "const")
    packed = pack_activation(a, tensor[None]).tobytes()
    bases, dram = placed(program, {consts: program.consts, picture.name: packed})

    device = VtaDevice(a, bus_bytes=8)
    model = DramModel(contents=dram, bus_bytes=8, latency_cycles=30, stall_percent=10)

    async def run(ctx: SimulatorContext) -> None:
        ctx.set(device.insn_address, len(dram) - len(program.instructions) * INSTRUCTION_BYTES)
        ctx.set(device.insn_count, len(program.instructions))
        ctx.set(device.start, 1)
        await ctx.tick()
        ctx.set(device.insn_address, 0)  # a start while the device is not idle does nothing
        assert not ctx.get(device.idle)
        cycles = 0
        while not ctx.get(device.done):
            await ctx.tick()
            cycles += 1
            assert cycles < MOST_CYCLES, "the program does not end"
            ctx.set(device.start, cycles % 100 == 50)
        assert ctx.get(device.idle)

    readers = (device.fetch_bus, device.load_bus, device.weight_bus, device.compute_bus)
    groups = [readers] if shared_port else [(bus,) for bus in readers]
    masters = [*(model.reads_of(*some) for some in groups), model.writes_of(device.store_bus)]
    simulate(device, run, background=masters)

    shape = activation_shape(a, spec.channels, spec.height, spec.width)
    found = dram[bases[spec.name] :][: int(np.prod(shape))].view(np.int8).reshape(shape)
    np.testing.assert_array_equal(unpack_activation(a, found, spec.channels)[0], expected)
    return program


@pytest.mark.sim
@pytest.mark.parametrize(
    ("a", "shared_port"),
    [
        pytest.param(ACCELERATOR, False, id="a port each", marks=pytest.mark.networks),
        pytest.param(ACCELERATOR, True, id="one port"),
        pytest.param(RECTANGULAR, False, id="1x16x8", marks=pytest.mark.networks),
    ],
)
def test_two_convolutions_give_their_reference(a: Accelerator, shared_port: bool) -> None:
    draw = np.random.default_rng(20)
    picture = TensorSpec(name="picture", channels=16, height=10, width=10)
    first = conv(draw, "first", picture, 1)
    layers = [first, conv(draw, "second", first.output, 2)]
    program = check_on_hardware(a, layers, picture, shared_port=shared_port)
    assert len(program.instructions) > 10 * a.command_queue_depth


@pytest.mark.sim
def test_gates_give_their_reference() -> None:
    """A picture times its own convolution, and that times a value for each channel."""
    extensions = ("multiply", "requantise")
    a = replace(RECTANGULAR, revision="0.0.1", acc_hazard_steps=1, extensions=extensions)
    draw = np.random.default_rng(22)
    picture = TensorSpec(name="picture", channels=16, height=5, width=5)
    first = conv(draw, "first", picture, 1)
    gated = product(draw, "gated", picture, first.output)
    one = conv(draw, "one", gated.output, 5)
    layers = [first, gated, one, product(draw, "scaled", one.output, gated.output)]
    program = check_on_hardware(a, layers, picture)
    codes = program.table.columns[Opcode.ALU]["alu_opcode"].tolist()
    assert {AluOp.MULTIPLY, AluOp.REQUANTISE} == set(codes)
