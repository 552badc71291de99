"""Functions of users inside ARM stages: the same bits, with kernels of edgepipe around them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from arm_layers import module_of, random_inputs, spec
from emulated_stage import run_emulated

from edgepipe.codegen import foreign_trial
from edgepipe.codegen.arm.foreign import shapes
from edgepipe.codegen.arm.layouts import Blocks
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.errors import CodegenError
from edgepipe.partition.foreign import ForeignCall
from edgepipe.partition.operators import match_operators
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import run_module
from vta_stages.layers.records import Conv, Epilogue, MaxPool, Table

LOOKUP = Path(__file__).resolve().parents[3] / "examples/c_kernels/lookup.c"
# A max pool of 2x2 pixels and the table that reads it, in one pass.
POOLED = """\
#include <stdint.h>
int32_t pooled(const int64_t (*shapes)[4], const int8_t *x, const int32_t *offset,
               const int8_t *table, int8_t *made) {
  const int64_t *from = shapes[0], *to = shapes[3];
  for (int64_t c = 0; c < to[1]; ++c)
    for (int64_t i = 0; i < to[2]; ++i)
      for (int64_t j = 0; j < to[3]; ++j) {
        const int8_t *p = x + (c * from[2] + 2 * i) * from[3] + 2 * j;
        int8_t most = p[0];
        if (p[1] > most) most = p[1];
        if (p[from[3]] > most) most = p[from[3]];
        if (p[from[3] + 1] > most) most = p[from[3] + 1];
        made[(c * to[2] + i) * to[3] + j] = table[most + offset[0]];
      }
  return 0;
}
"""


def network():
    """Return a convolution, a table, a max pool, a table and a convolution, and what they read."""
    rng = np.random.default_rng(5)
    wide, small = spec("x", 20, 8, 8), spec("pool", 20, 4, 4)

    def conv(name, source, made):
        channels = made.channels
        return Conv(
            name=name,
            input=source,
            output=made,
            weight=rng.integers(-128, 128, (channels, source.channels, 1, 1)).astype(np.int8),
            epilogue=Epilogue(
                bias=rng.integers(-4000, 4000, channels).astype(np.int32),
                shift=np.full(channels, 9, np.int32),
                low=-128,
                high=127,
            ),
        )

    def table(name, source, made):
        values = rng.integers(-128, 128, (1, 256)).astype(np.int8)
        return Table(name=name, input=source, output=made, table=values)

    first, bent, last = spec("first", 20, 8, 8), spec("bent", 20, 8, 8), spec("last", 20, 4, 4)
    layers = (
        conv("first", wide, first),
        table("bent", first, bent),
        MaxPool(name="pool", input=bent, output=small, kernel=(2, 2), stride=(2, 2)),
        table("last", small, last),
        conv("end", last, spec("end", 8, 4, 4)),
    )
    return layers, [wide]


def call(function, source, *operators):
    return ForeignCall(generator="mine", function=function, operators=operators, sources=(source,))


@pytest.fixture
def calls(tmp_path):
    pooled = tmp_path / "pooled.c"
    pooled.write_text(POOLED)
    return (call("lookup", LOOKUP, "bent"), call("pooled", pooled, "pool", "last"))


def given():
    layers, inputs = network()
    module = module_of(layers, inputs)
    return module, random_inputs(inputs, np.random.default_rng(6))


def test_functions_alone_and_for_a_chain_compute_the_networks_bits(tmp_path, calls):
    module, arrays = given()
    foreign_trial.try_calls(calls, {o.name: o for o in match_operators(module)}, module)
    expected = run_module(module, arrays)["end"]
    artifact = compile_arm_stage(module, arches=("x86_64",), calls=calls)
    artifact.write(tmp_path)
    plan = artifact.files["plan.json"].decode()
    assert plan.count('"kernel": "foreign_') == 2
    assert '"operator": "pool"' not in plan
    for threads in (1, 3):
        with ArmStage(tmp_path, threads=threads) as stage:
            np.testing.assert_array_equal(stage.run(arrays)["end"], expected)


def test_a_function_at_the_border_of_a_stage_writes_the_accelerators_layout(tmp_path, calls):
    layers, inputs = network()
    module = module_of(layers[:2], inputs)
    arrays = random_inputs(inputs, np.random.default_rng(7))
    expected = run_module(module, arrays)["bent"]
    blocks = Blocks(block=16)
    compile_arm_stage(
        module, arches=("x86_64",), calls=calls[:1], output_layouts={"bent": blocks}
    ).write(tmp_path)
    with ArmStage(tmp_path) as stage:
        found = stage.run(arrays)["bent"].transpose(0, 4, 3, 1, 2).reshape(32, 8, 8)
    np.testing.assert_array_equal(found[:20], expected[0])
    assert not found[20:].any()


@pytest.mark.cross
def test_a_board_computes_the_same_bits(tmp_path, calls, architecture):
    module, arrays = given()
    expected = run_module(module, arrays)["end"]
    compile_arm_stage(module, arches=(architecture,), calls=calls).write(tmp_path)
    found = run_emulated(architecture, tmp_path, arrays, {"end": expected})
    np.testing.assert_array_equal(found["end"], expected)


def test_shapes_have_four_extents():
    assert shapes([(3,), (1, 2, 3, 4), (2, 3, 4, 5, 6), ()]).tolist() == [
        [1, 1, 1, 3],
        [1, 2, 3, 4],
        [6, 4, 5, 6],
        [1, 1, 1, 1],
    ]


BEGIN = "#include <stdint.h>\nint32_t f(void *s, const int8_t *x, void *o, void *t, int8_t *made)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{BEGIN} {{ made[0] = x[0]; return 0; }}",
            r"bent: function f of mine computes other bits than integer Relax: \d+ of 1280 bytes "
            r"differ, first at \[0, 0, 0, ",
        ),
        (f"{BEGIN} {{ *(volatile int *)0 = 1; return 0; }}", "f of mine ends the process with "),
        (f"{BEGIN} {{ for (;;) *(volatile int8_t *)made = 1; }}", "does not return within 2 s"),
        ("int g(void) { return 0; }", "f of mine cannot be called .*undefined symbol: f"),
    ],
)
def test_a_wrong_function_is_refused_before_anything_is_built(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_trial, "_LIMIT_S", 2)
    source = tmp_path / "f.c"
    source.write_text(text)
    module, _ = given()
    operators = {o.name: o for o in match_operators(module)}
    with pytest.raises(CodegenError, match=message) as caught:
        foreign_trial.try_calls([call("f", source, "bent")], operators, module)
    assert caught.value.hint == "correct the function, or limit the rule that names it"


def tried(calls, module):
    foreign_trial.try_calls(calls, {o.name: o for o in match_operators(module)}, module)


def compiled(calls, module):
    compile_arm_stage(module, arches=("aarch64",), calls=calls)


@pytest.mark.parametrize("act", [tried, compiled])
def test_a_file_that_is_not_c_is_refused_with_the_compilers_words(
    act: Callable[..., None], tmp_path: Path
) -> None:
    source = tmp_path / "f.c"
    source.write_text("int f(void) { return x; }\n")
    module, _ = given()
    with pytest.raises(CodegenError, match=r"f\.c: .*gcc refuses it: f\.c:1:22: error") as caught:
        act([call("f", source, "bent")], module)
    assert caught.value.hint == "correct the C file of the code generator"


def test_a_function_that_no_file_defines_is_named(tmp_path: Path) -> None:
    source = tmp_path / "f.c"
    source.write_text("int g(void) { return 0; }\n")
    module, _ = given()
    with pytest.raises(
        CodegenError, match="function f is in none of the code generator's"
    ) as caught:
        compiled([call("f", source, "bent")], module)
    assert caught.value.hint == "define the functions that its rules name"
