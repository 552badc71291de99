"""A sum by subscripts becomes transposes and one product of the same values."""

from __future__ import annotations

import string

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.rewrites.einsums import plain_einsums

Shapes = tuple[tuple[int, ...], ...]


def einsum(equation: str, *shapes: tuple[int, ...]) -> onnx.ModelProto:
    made = np.einsum(equation, *(np.zeros(shape) for shape in shapes)).shape
    names = [f"x{number}" for number in range(len(shapes))]
    nodes = [
        helper.make_node("Einsum", names, ["y"], equation=equation),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "einsum",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(names, shapes, strict=True)
        ],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, made)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def with_a_constant(equation: str, *shapes: tuple[int, ...]) -> onnx.ModelProto:
    """A sum by subscripts whose second tensor is a constant, as of relative positions."""
    model = einsum(equation, *shapes)
    values = np.random.default_rng(1).normal(0, 1, shapes[1]).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(values, "x1"))
    del model.graph.input[1]
    return model


def rewritten(model: onnx.ModelProto) -> list[str]:
    """Return the operators after the rewrite, without the last; the values are those of before."""
    after = onnx.ModelProto()
    after.CopyFrom(model)
    infer_shapes(after)
    plain_einsums(after)
    onnx.checker.check_model(after)
    one, other = run(model), run(after)
    assert one.shape == other.shape
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    return [node.op_type for node in after.graph.node][:-1]


def run(model: onnx.ModelProto) -> np.ndarray:
    random = np.random.default_rng(0)
    inputs = {
        value.name: random.normal(0, 1, [d.dim_value for d in value.type.tensor_type.shape.dim])
        for value in model.graph.input
    }
    session = onnxruntime.InferenceSession(model.SerializeToString())
    given = {name: values.astype(np.float32) for name, values in inputs.items()}
    return np.asarray(session.run(None, given)[0])


PRODUCTS: dict[str, tuple[Shapes, list[str]]] = {
    # attention: queries and keys, weights and values
    "bhqd,bhkd->bhqk": (((1, 2, 5, 4), (1, 2, 6, 4)), ["Transpose", "MatMul"]),
    "bhqk,bhkd->bhqd": (((1, 2, 5, 6), (1, 2, 6, 4)), ["MatMul"]),
    "bqhd,bkhd->bhqk": (((1, 5, 2, 4), (1, 6, 2, 4)), ["Transpose", "Transpose", "MatMul"]),
    # MaxViT's windows
    "B G H I D, B G H J D -> B G H I J": (
        ((1, 3, 2, 5, 4), (1, 3, 2, 6, 4)),
        ["Reshape", "Transpose", "Reshape", "MatMul", "Reshape"],
    ),
    # masks of queries, similarity with texts
    "bqc,bchw->bqhw": (((1, 7, 3), (1, 3, 4, 5)), ["Reshape", "MatMul", "Reshape"]),
    "bchw,bkc->bkhw": (
        ((1, 3, 4, 5), (1, 7, 3)),
        ["Transpose", "Reshape", "Transpose", "MatMul", "Reshape", "Transpose"],
    ),
    "...ij,...jk->...ik": (((2, 3, 4), (2, 4, 5)), ["MatMul"]),
    "ij,jk": (((3, 4), (4, 5)), ["MatMul"]),
    "i,i->": (((4,), (4,)), ["Reshape", "Reshape", "MatMul", "Reshape"]),
    # nothing is summed
    "bchw,bc->bchw": (((1, 3, 4, 5), (1, 3)), ["Reshape", "Mul"]),
    "i,j->ij": (((3,), (4,)), ["Reshape", "Reshape", "Mul"]),
    # several tensors: linear attention and its inverse, which may come first or last
    "bnd,bde,bn->bne": (((1, 5, 4), (1, 4, 3), (1, 5)), ["MatMul", "Reshape", "Mul"]),
    "...de,...nd,...n->...ne": (
        ((1, 2, 4, 3), (1, 2, 5, 4), (1, 2, 5)),
        ["Transpose", "Transpose", "MatMul", "Transpose", "Reshape", "Mul"],
    ),
    "ij,jk,kl->il": (((2, 3), (3, 4), (4, 5)), ["MatMul", "MatMul"]),
    "ij,jk,kl,lm->im": (((2, 3), (3, 4), (4, 5), (5, 2)), ["MatMul"] * 3),
    "i,i,j->j": (
        ((3,), (3,), (4,)),
        ["Reshape", "Reshape", "MatMul", "Reshape", "Reshape", "Mul"],
    ),
    # one tensor
    "bhwc->bchw": (((1, 4, 5, 3),), ["Transpose"]),
}


@pytest.mark.parametrize("equation", PRODUCTS)
def test_it_is_transposes_and_products(equation) -> None:
    shapes, kinds = PRODUCTS[equation]
    found = rewritten(einsum(equation, *shapes))
    assert "Einsum" not in found
    assert sorted(found) == sorted(kinds)


@pytest.mark.parametrize(
    ("equation", "shapes", "kinds"),
    [
        ("byhwc,hkc->byhwk", ((1, 2, 3, 4, 5), (3, 6, 5)), ["MatMul", "Reshape", "Transpose"]),
        ("ij,kj->ik", ((3, 4), (5, 4)), ["MatMul"]),
        ("bchw,cb->bchw", ((1, 3, 4, 5), (3, 1)), ["Mul"]),
    ],
)
def test_constants_are_moved_at_once(equation, shapes, kinds) -> None:
    """MViT's relative positions: nothing that is computed of constants alone is left."""
    found = rewritten(with_a_constant(equation, *shapes))
    assert set(found) == {*kinds}
    assert found.count("MatMul") + found.count("Mul") == 1
    assert found.count("Transpose") <= 2  # of the tensor and of the result


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ii->i", ((3, 3),)),  # a diagonal
        ("ij->i", ((3, 4),)),  # a sum over a label of one tensor
        ("ij,k->k", ((3, 4), (5,))),
        ("ij,jk,kl->i", ((2, 3), (3, 4), (4, 5))),
        ("ij,jk,kl,l->j", ((2, 3), (3, 4), (4, 5), (5,))),
    ],
)
def test_others_stay(equation, shapes) -> None:
    assert rewritten(einsum(equation, *shapes)) == ["Einsum"]


@pytest.mark.parametrize(
    "equation",
    ["", "->", "ij", "ij,jk->iz", "ij,jk->ii", "i.j,jk->ik", "ijk,jk->ik", "\xff,ij->ij"],
)
def test_a_damaged_equation_is_left_to_the_importer(equation) -> None:
    model = einsum("ij,jk->ik", (2, 3), (3, 4))
    model.graph.node[0].attribute[0].s = equation.encode("latin1")
    plain_einsums(model)
    assert [node.op_type for node in model.graph.node] == ["Einsum", "Relu"]


def test_shapes_that_do_not_fit_are_left_to_the_importer() -> None:
    model = einsum("ij,jk->ik", (2, 3), (3, 4))
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 5
    plain_einsums(model)
    assert [node.op_type for node in model.graph.node] == ["Einsum", "Relu"]


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, Shapes]:
    """Two tensors, whose labels are all in the result or in both of them."""
    labels = draw(
        st.lists(st.sampled_from(string.ascii_letters), min_size=1, max_size=6, unique=True)
    )
    extents = {label: draw(st.integers(1, 4)) for label in labels}
    where = {label: draw(st.sampled_from(["left", "right", "batch", "sum"])) for label in labels}
    sides = []
    for side in ("left", "right"):
        here = [label for label in labels if where[label] in (side, "batch", "sum")]
        sides.append("".join(draw(st.permutations(here))))
    result = draw(st.permutations([label for label in labels if where[label] != "sum"]))
    shapes = tuple(tuple(extents[label] for label in side) for side in sides)
    return f"{sides[0]},{sides[1]}->{''.join(result)}", shapes


@settings(deadline=None, max_examples=60)
@given(equations())
def test_any_order_of_axes_gives_the_same_values(case) -> None:
    equation, shapes = case
    assume(all(shapes))
    rewritten(einsum(equation, *shapes))


def test_what_is_moved_of_a_constant_is_one() -> None:
    """Positions beside queries, as MViTv2 has them."""
    model = einsum("bhqc,qkc->bhqk", (1, 2, 5, 4), (5, 6, 4))
    positions = np.random.default_rng(1).normal(0, 1, (5, 6, 4)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(positions, "x1"))
    del model.graph.input[1]
    assert rewritten(model) == ["Transpose", "Reshape", "MatMul", "Reshape", "Transpose"]
