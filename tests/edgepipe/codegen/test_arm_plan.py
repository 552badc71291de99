"""The static plan: tensors that are live together never share memory; the text is stable."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.codegen.arm.channelwise import sparse_taps
from edgepipe.codegen.arm.convolution import merge_groups
from edgepipe.codegen.arm.plan import Library, PlanBuilder

ARCHITECTURES = {
    "x86_64": [Library("kernels-new.so", ("avx512f", "avx2")), Library("kernels-old.so", ("avx2",))]
}


@st.composite
def programs(draw):
    """Random temporaries, and calls that read and write them in random order."""
    sizes = draw(st.lists(st.integers(1, 300), min_size=1, max_size=8))
    numbers = st.integers(0, len(sizes) - 1)
    return sizes, draw(st.lists(st.lists(numbers, min_size=1, max_size=3), min_size=1, max_size=9))


@given(program=programs())
def test_temporaries_that_live_together_do_not_overlap(program):
    sizes, calls = program
    plan = PlanBuilder()
    operands = [plan.add_temporary("int8", (size,)) for size in sizes]
    for number, args in enumerate(calls):
        plan.add_call(f"operator{number}", "kernel", [operands[a] for a in args])
    read = json.loads(plan.finish(0, ARCHITECTURES)[0])
    places = {}
    for args, call in zip(calls, read["calls"], strict=True):
        for arg, tensor in zip(args, call["args"], strict=True):
            places[arg] = read["tensors"][tensor]["offset"]
    moments = {a: [i for i, args in enumerate(calls) if a in args] for a in places}
    for a in places:
        assert places[a] % 64 == 0
        assert places[a] + sizes[a] <= read["workspace_bytes"]
        for b in places:
            alive_together = moments[a][0] <= moments[b][-1] and moments[b][0] <= moments[a][-1]
            apart = places[a] + sizes[a] <= places[b] or places[b] + sizes[b] <= places[a]
            assert a == b or not alive_together or apart


def test_equal_constants_are_stored_once_and_aligned():
    plan = PlanBuilder()
    first = plan.add_constant(np.arange(5, dtype=np.int8))
    second = plan.add_constant(np.arange(5, dtype=np.int32))
    assert plan.add_constant(np.arange(5, dtype=np.int8)) == first
    plan.add_call("operator", "kernel", [first, second])
    text, weights = plan.finish(0, ARCHITECTURES)
    offsets = [t["offset"] for t in json.loads(text)["tensors"]]
    assert offsets == [0, 64]
    assert len(weights) == 64 + 20


def test_the_libraries_of_an_architecture_are_listed_best_first():
    assert json.loads(PlanBuilder().finish(0, ARCHITECTURES)[0])["architectures"] == {
        "x86_64": [
            {"kernels": "kernels-new.so", "cpu_features": ["avx512f", "avx2"]},
            {"kernels": "kernels-old.so", "cpu_features": ["avx2"]},
        ]
    }


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 1000))
def test_sparse_taps_are_the_matrix(outputs, inputs, seed):
    matrix = np.random.default_rng(seed).integers(-2, 3, (outputs, inputs)).astype(np.int32)
    taps, firsts = sparse_taps(matrix)
    rebuilt = np.zeros_like(matrix)
    for row, (factors, first) in enumerate(zip(taps, firsts, strict=True)):
        rebuilt[row, first : first + factors.size] = factors
    np.testing.assert_array_equal(rebuilt, matrix)


def test_groups_are_merged_until_their_outputs_fill_a_vector():
    weight = np.ones((32, 4, 1, 1), np.int8)  # 8 groups of 4 inputs and 4 outputs
    merged, groups = merge_groups(weight, 8, 16)
    assert groups == 2
    assert merged.shape == (32, 16, 1, 1)
    block = np.kron(np.eye(4, dtype=np.int8), np.ones((4, 4), np.int8))
    np.testing.assert_array_equal(merged[:, :, 0, 0], np.tile(block, (2, 1)))
