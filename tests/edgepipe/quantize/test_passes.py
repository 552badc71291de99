"""The contract of every pass; an error names the pass that breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import small_networks

from edgepipe.errors import QuantizeError
from edgepipe.frontend.network import load_network
from edgepipe.quantize.calibrate import collect_statistics
from edgepipe.quantize.fusion import Fuse
from edgepipe.quantize.graph import ConvNode, FloatNode, Graph, SumNode
from edgepipe.quantize.integers import IntegerNetwork
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.passes import Pass, run
from edgepipe.quantize.quantizer import understand
from edgepipe.quantize.ranges import measured_tensors
from edgepipe.quantize.read_relax import ReadRelax
from edgepipe.quantize.recognise import Recognise
from edgepipe.quantize.scheme import TensorRange
from edgepipe.quantize.to_integers import ToIntegers
from edgepipe.quantize.unread import RemoveUnread
from edgepipe.quantize.write_relax import WriteRelax
from edgepipe.tvm_adapter import Main, read_main


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values between the passes for one network."""

    main: Main
    read: Graph
    recognised: Graph
    fused: Graph
    understood: Graph
    measured: dict[str, TensorRange]
    to_integers: ToIntegers
    integers: IntegerNetwork
    write_relax: WriteRelax


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Values:
    path = tmp_path_factory.mktemp("passes") / "net.onnx"
    onnx.save(small_networks.detector(), path)
    network = load_network(path)
    main = read_main(network.module)
    read = run(ReadRelax(), main)
    recognised = run(Recognise(), read)
    fused = run(Fuse(), recognised)
    understood = run(RemoveUnread(), fused)
    statistics, _ = collect_statistics(
        network,
        measured_tensors(understood),
        small_networks.frames(2),
        small_networks.PREPROCESS,
        limit=2,
    )
    measured = {name: TensorRange.of(found, "mse") for name, found in statistics.items()}
    to_integers = ToIntegers(
        measured=measured, preprocess=small_networks.PREPROCESS, options=QuantizeOptions()
    )
    return Values(
        main=main,
        read=read,
        recognised=recognised,
        fused=fused,
        understood=understood,
        measured=measured,
        to_integers=to_integers,
        integers=run(to_integers, understood),
        write_relax=WriteRelax(network.module),
    )


def refused(step: Pass[Any, Any], before: object) -> str:
    """Return the error of ``run`` for a broken contract."""
    with pytest.raises(QuantizeError) as caught:
        run(step, before)
    assert caught.value.hint == "this is a bug in edgepipe: report it with the steps that led to it"
    return str(caught.value)


def test_read_relax_requires_one_picture(values: Values) -> None:
    two = replace(values.main, params=values.main.params * 2)
    assert refused(ReadRelax(), two) == (
        "pass ReadRelax cannot run: main has 2 parameters, expected one"
    )


def test_read_relax_makes_a_float_node_of_every_binding(values: Values) -> None:
    assert all(isinstance(node, FloatNode) for node in values.read.nodes)
    assert len(values.read.nodes) == len(values.main.bindings)


def test_recognise_requires_that_nothing_is_recognised_yet(values: Values) -> None:
    assert refused(Recognise(), values.recognised) == (
        "pass Recognise cannot run: stem_conv__1 is a ConvNode already"
    )


def test_recognise_keeps_calls_float_that_are_named(values: Values) -> None:
    why = "calibration cannot measure a range inside it"
    graph = run(Recognise(keep_float={"stem_conv__1": why}), values.read)
    node = next(node for node in graph.nodes if node.name == "stem_conv__1")
    assert node.reason == "stays float: calibration cannot measure a range inside it"


def test_fuse_requires_that_nothing_is_fused_yet(values: Values) -> None:
    message = refused(Fuse(), values.fused)
    assert message.startswith("pass Fuse cannot run: convolution ")
    assert message.endswith(" is fused already")
    terms = tuple((values.fused.input, np.ones(3)) for _ in range(3))
    three = SumNode(name="three", terms=terms, bias=np.zeros(3))
    graph = Graph(
        input=values.fused.input,
        nodes=(three,),
        outputs=("three",),
        shapes={values.fused.input: (1, 3, 4, 4), "three": (1, 3, 4, 4)},
    )
    assert refused(Fuse(), graph) == "pass Fuse cannot run: sum three is fused already"


def test_fuse_leaves_no_node_that_could_be_fused(values: Values) -> None:
    made = [node.name for node in values.fused.nodes if isinstance(node, ConvNode)]
    assert made == ["stem_leaky", "body_leaky", "down_conv", "merge_again", "head_conv"]


def test_remove_unread_requires_a_well_formed_graph(values: Values) -> None:
    shuffled = replace(values.fused, nodes=values.fused.nodes[::-1])
    message = refused(RemoveUnread(), shuffled)
    assert message.startswith("pass RemoveUnread cannot run: ")
    assert message.endswith("which no node before it makes")


def test_remove_unread_removes_what_no_output_needs(values: Values) -> None:
    assert "head_split" not in {node.name for node in values.understood.nodes if node.reason == ""}
    one = replace(values.fused, outputs=("stem_leaky",))
    assert [node.name for node in run(RemoveUnread(), one).nodes] == ["stem_leaky"]


def test_to_integers_requires_a_range_for_every_scale(values: Values) -> None:
    left = {name: found for name, found in values.measured.items() if name != "down_conv"}
    assert refused(replace(values.to_integers, measured=left), values.understood) == (
        "pass ToIntegers cannot run: the range of down_conv was not measured"
    )


def test_to_integers_requires_frames_that_fit(values: Values) -> None:
    wide = replace(small_networks.PREPROCESS, width=32)
    assert refused(replace(values.to_integers, preprocess=wide), values.understood) == (
        "pass ToIntegers cannot run: the input is [1, 3, 16, 16], expected [1, 3, 16, 32]"
    )


@pytest.mark.parametrize("scale", [np.nan, 0.0, -1.0])
def test_write_relax_requires_scales_that_are_positive(values: Values, scale: float) -> None:
    scales = {**values.integers.scales, "stem_pool": np.full(8, scale)}
    assert refused(values.write_relax, replace(values.integers, scales=scales)) == (
        "pass WriteRelax cannot run: stem_pool has a scale that is not a positive number"
    )


def test_write_relax_requires_operators_in_order(values: Values) -> None:
    turned = replace(values.integers, operations=values.integers.operations[1:])
    assert refused(values.write_relax, turned) == (
        "pass WriteRelax cannot run: stem_leaky reads image.int8, which no operator before it makes"
    )


def test_write_relax_ensures_the_outputs_shapes(values: Values) -> None:
    outputs = dict.fromkeys(values.integers.outputs, (1, 2, 3))
    message = refused(values.write_relax, replace(values.integers, outputs=outputs))
    assert message == "pass WriteRelax broke its promise: output scores is not float32[1, 2, 3]"


@dataclass(frozen=True)
class Forgetful:
    """A pass that loses the last node, and either reports it or not."""

    honest: bool

    def requires(self, before: Graph) -> Iterator[str]:
        return iter(())

    def apply(self, before: Graph) -> Graph:
        return replace(before, nodes=before.nodes[:-1], outputs=before.outputs[: -self.honest])

    def ensures(self, before: Graph, after: Graph) -> Iterator[str]:
        if after.outputs != before.outputs:
            yield "an output is missing"


def test_the_verifier_finds_what_a_pass_does_not_check(values: Values) -> None:
    read = values.read
    last = replace(read, outputs=(read.nodes[0].name, read.nodes[-1].name))
    assert refused(Forgetful(honest=True), last) == (
        "pass Forgetful broke its promise: an output is missing"
    )
    forgetful = refused(_KeepsOutputs(honest=False), last)
    assert forgetful == (
        f"pass _KeepsOutputs made a malformed result: "
        f"output {read.nodes[-1].name} is made by no node"
    )


class _KeepsOutputs(Forgetful):
    def apply(self, before: Graph) -> Graph:
        return replace(before, nodes=before.nodes[:-1])


def test_understanding_ends_with_ranges_that_calibration_can_measure(tmp_path: Path) -> None:
    onnx.save(small_networks.with_float_middle(), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    graph = understand(network)
    assert not list(graph.problems())
    assert {node.name for node in graph.nodes if isinstance(node, ConvNode)} == {"first", "second"}
