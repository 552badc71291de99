"""Networks with recurrent layers are refused with the command that keeps those on the host."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from small_networks import Builder

from edgepipe.errors import FrontendError
from edgepipe.frontend.folding import run_model
from edgepipe.frontend.network import load_network

SHAPE = (1, 3, 8, 10)
GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


def reader(kind: str) -> onnx.ModelProto:
    """Return columns of features read by a recurrent layer, whose state has a computed shape."""
    b = Builder()
    x = b.node("Relu", [b.conv("image", "c", (4, 3, 8, 1))], "features")
    count = 4
    b.node("Reshape", [x, b.constant("flat", np.array([1, count, 10]))], "columns")
    b.node("Transpose", ["columns"], "sequence", perm=[2, 0, 1])
    size = GATES[kind] * 6
    names = [b.constant("w", b.normal(1, size, count)), b.constant("r", b.normal(1, size, 6))]
    shape = b.node("Shape", ["sequence"], "shape")
    batch = b.node("Slice", [shape, *(b.constant(f"b{n}", np.array([n])) for n in (1, 2))], "batch")
    one, six = (b.constant(f"n{n}", np.array([n])) for n in (1, 6))
    b.node("Concat", [one, batch, six], "state_shape", axis=0)
    state = b.node("ConstantOfShape", ["state_shape"], "state")
    b.nodes.append(
        helper.make_node(kind, ["sequence", *names, "", "", state], ["y"], hidden_size=6)
    )
    b.node("Squeeze", ["y", b.constant("axes", np.array([1, 2]))], "scores")
    return b.model([*SHAPE], {"scores": 2})


@pytest.mark.parametrize("kind", GATES)
def test_a_recurrent_layer_is_refused_with_the_command_that_cuts_it_off(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "my net.onnx"
    onnx.save(reader(kind), path)
    with pytest.raises(FrontendError) as raised:
        load_network(path)
    assert str(raised.value) == (f"{path}: {kind} 'y' is recurrent, and there is no kernel for it")
    start = (
        "build the part before it, and run the rest on the host with onnxruntime; to make "
        "my net-first.onnx and my net-rest.onnx: python -c "
    )
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(start)
    script = shlex.split(raised.value.hint.removeprefix(start))
    subprocess.run([sys.executable, "-c", *script], check=True)
    load_network(tmp_path / "my net-first.onnx")
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    expected = run_model(onnx.load(path), {"image": picture})
    sequence = run_model(onnx.load(tmp_path / "my net-first.onnx"), {"image": picture})
    found = run_model(onnx.load(tmp_path / "my net-rest.onnx"), {"sequence": sequence[0]})
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


def test_a_recurrent_layer_that_reads_the_picture_leaves_nothing_to_build(tmp_path: Path) -> None:
    b = Builder()
    names = [b.constant("w", b.normal(1, 8, 10)), b.constant("r", b.normal(1, 8, 2))]
    b.nodes.append(helper.make_node("LSTM", ["image", *names], ["y"], hidden_size=2))
    onnx.save(b.model([8, 3, 10], {"y": 4}), tmp_path / "net.onnx")
    with pytest.raises(FrontendError, match="LSTM 'y' is recurrent") as raised:
        load_network(tmp_path / "net.onnx")
    assert raised.value.hint == (
        "edgepipe builds networks of convolutions and dense layers; run this one on the host"
    )
