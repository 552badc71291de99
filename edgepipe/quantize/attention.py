"""Recognise attention: two products of computed matrices, and a softmax between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.call import Call
from edgepipe.quantize.graph import AttentionNode, Node
from edgepipe.tvm_adapter import Binding

Float = NDArray[np.float64]
_NO_WEIGHTS = "its weights are not constant"
_LEAST_RANK = 3
_MOST_DEPTH = 1 << 12  # differences of scores then fit int32, beside what is added to them


def attention(call: Call, first: str, second: str) -> Node | str:
    """Return the attention that the product of two tensors ends.

    before   s = matmul(q, k); p = nn.softmax(s * const + const); y = matmul(p, v)
             y = matmul(v, permute_dims(p)), the last two axes
    after    AttentionNode y of q, k and v; the inner calls stay, too

    Constants that multiply or divide q or k on the way belong to the factor.
    """
    weights, value = first, second
    softmax = _made(call, first, "nn.softmax")
    is_turned = softmax is None
    if softmax is None:
        turn = _made(call, second, "permute_dims")
        if turn is None or not _swaps_the_last(turn):
            return _NO_WEIGHTS
        weights, value = str(turn.args[0]), first
        softmax = _made(call, weights, "nn.softmax")
    if softmax is None or len(call.shapes[weights]) < _LEAST_RANK:
        return _NO_WEIGHTS
    rank = len(call.shapes[weights])
    if softmax.attributes["axis"] % rank != rank - 1:
        return "the weights of its attention are not shares of rows"
    scores, factor, bias = _scaled(call, str(softmax.args[0]))
    product = _made(call, scores, "matmul")
    if product is None or not all(isinstance(argument, str) for argument in product.args):
        return "the scores of its attention are not a product of two tensors"
    query, by_query, _ = _scaled(call, str(product.args[0]), only_factors=True)
    key, by_key, _ = _scaled(call, str(product.args[1]), only_factors=True)
    factor *= by_query * by_key
    if call.is_float(query, key, value):
        return "its attention is over float tensors"
    depth = call.shapes[query][-1]
    if depth > _MOST_DEPTH:
        return f"its vectors have {depth} elements, expected at most {_MOST_DEPTH}"
    if not factor > 0 or (bias is not None and not np.isfinite(bias).all()):
        return "the scores of its attention are not scaled by a positive number"
    return AttentionNode(
        name=call.name,
        query=query,
        key=key,
        value=value,
        factor=factor,
        bias=bias,
        is_turned=is_turned,
    )


def _scaled(
    call: Call, tensor: str, *, only_factors: bool = False
) -> tuple[str, float, Float | None]:
    """Return the tensor, the factor and what is added, of which ``tensor`` consists."""
    factor, bias = 1.0, None
    while True:
        binding = call.bindings.get(tensor)
        constants = [a for a in binding.args if isinstance(a, np.ndarray)] if binding else []
        if binding is None or len(constants) != 1 or len(binding.inputs) != 1:
            return tensor, factor, bias
        constant = np.asarray(constants[0], np.float64)
        if binding.shape != call.shapes[binding.inputs[0]]:
            return tensor, factor, bias
        is_second = isinstance(binding.args[0], str)
        if binding.op == "multiply" and constant.size == 1:
            factor *= float(constant.flat[0])
        elif binding.op == "divide" and constant.size == 1 and is_second and constant.flat[0]:
            factor /= float(constant.flat[0])
        elif binding.op == "add" and not only_factors:
            # What is added before a factor is multiplied with it, too.
            added = constant * factor
            bias = added if bias is None else bias + added
        else:
            return tensor, factor, bias
        tensor = binding.inputs[0]


def _swaps_the_last(turn: Binding) -> bool:
    """Return whether a transposition exchanges the last two axes."""
    rank = len(turn.shape)
    axes = tuple(turn.attributes["axes"] or reversed(range(rank)))
    return [int(axis) % rank for axis in axes] == [*range(rank - 2), rank - 1, rank - 2]


def _made(call: Call, tensor: str, op: str) -> Binding | None:
    """Return the call that computes a tensor if it is ``op``."""
    found = call.bindings.get(tensor)
    return found if found is not None and found.op == op else None
