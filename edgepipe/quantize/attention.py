"""Recognise products of computed matrices: attention has a softmax between two of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.call import Call
from edgepipe.quantize.graph import AttentionNode, LinearAttentionNode, MatrixNode, Node
from edgepipe.tvm_adapter import Binding

Float = NDArray[np.float64]
_NO_WEIGHTS = "its weights are not constant"
_LEAST_RANK = 3
_MOST_DEPTH = 1 << 12  # differences of scores then fit int32, beside what is added to them
_MOST_SUMMED = 1 << 16  # products of two int8, whose sum fits int32
_MOST_WEIGHED = 1 << 22  # products of three int8, whose sum leaves 18 bits of int64 to a factor
# What may stand between a product of two tensors and the softmax or quotient that it decides.
_PASSING = frozenset(
    [
        *("add", "subtract", "multiply", "divide", "where", "clip", "maximum", "minimum"),
        *("reshape", "permute_dims", "strided_slice", "split", "tuple_get_item"),
    ]
)


def scores(bindings: Mapping[str, Binding]) -> set[str]:
    """Return the products that are scores of a softmax or divisors, by the calls of a network.

    If scores were rounded to int8, most of the weights would be equal. Divisors are sums that can
    be much less than the largest of them. Linear attention rounds no divisor: it is one node.
    """
    found: set[str] = set()
    waiting = [i for b in bindings.values() if b.op == "nn.softmax" for i in b.inputs]
    divisors = (b.args[1] for b in bindings.values() if b.op == "divide")
    waiting += [divisor for divisor in divisors if isinstance(divisor, str)]
    seen = set(waiting)
    while waiting:
        binding = bindings.get(waiting.pop())
        if binding is None:
            continue
        if binding.op == "matmul" and len(binding.inputs) == 2:
            found.add(binding.name)
        elif binding.op in (*_PASSING, "matmul"):  # also one with a constant: it selects or pads
            waiting += [tensor for tensor in binding.inputs if tensor not in seen]
            seen.update(binding.inputs)
    return found


def matrices(call: Call, first: str, second: str) -> Node | str:
    """Return the product of two computed tensors that is no attention."""
    found = attention(call, first, second)
    if not isinstance(found, str):
        return found
    if call.name in call.scores:
        return found
    first, by_first, _ = _scaled(call, first, only_factors=True)
    second, by_second, _ = _scaled(call, second, only_factors=True)
    if call.is_float(first, second):
        return "a matrix that it multiplies is float"
    rank, depth = len(call.shape), call.shapes[first][-1]
    if not len(call.shapes[first]) == len(call.shapes[second]) == rank >= _LEAST_RANK:
        return "the matrices that it multiplies differ in rank"
    if depth > _MOST_SUMMED:
        return f"its sums have {depth} terms, expected at most {_MOST_SUMMED}"
    factor = by_first * by_second
    if not 0 < abs(factor) < np.inf:
        return "the matrices that it multiplies are scaled by 0, or by no number"
    return MatrixNode(name=call.name, first=first, second=second, factor=factor)


def attention(call: Call, first: str, second: str) -> Node | str:
    """Return the attention that the product of two tensors ends.

    before   s = matmul(q, k); p = nn.softmax(s * const + const); y = matmul(p, v)
             y = matmul(v, permute_dims(p)), the last two axes
    after    AttentionNode y of q, k and v; the inner calls stay, too

    Constants that multiply or divide q or k on the way belong to the factor. Scores that are no
    product of two tensors take the place of q and k.
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
    query, key, depth = scores, None, 1
    if product is not None and all(isinstance(argument, str) for argument in product.args):
        query, by_query, _ = _scaled(call, str(product.args[0]), only_factors=True)
        key, by_key, _ = _scaled(call, str(product.args[1]), only_factors=True)
        factor *= by_query * by_key
        depth = call.shapes[query][-1]
    if call.is_float(query, value) or (key is not None and call.is_float(key)):
        return "its attention is over float tensors"
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


def linear_attention(call: Call) -> Node | str | None:
    """Return the linear attention that a quotient ends, None if it ends none.

    before   t = matmul(q, sum(k, axis=-1)) + const; y = matmul(q, matmul(k, v)) * const / t
    after    LinearAttentionNode y of q, k and v; the inner calls stay, too

    ``frontend.rewrites.linear_attention`` writes linear attention of other forms with these calls.
    """
    sums, totals = call.args
    if not isinstance(sums, str) or not isinstance(totals, str):
        return None
    totals, one, added = _scaled(call, totals)
    sums, factor, _ = _scaled(call, sums, only_factors=True)
    epsilon = np.zeros(1) if added is None else added
    outer, inner = _made(call, sums, "matmul"), _made(call, totals, "matmul")
    if outer is None or inner is None or len(call.shape) < _LEAST_RANK:
        return None
    if one != 1 or epsilon.size != 1:
        return None
    query, context = outer.args
    product = _made(call, str(context), "matmul")
    total = _made(call, str(inner.args[1]), "sum")
    if product is None or total is None or query != inner.args[0]:
        return None
    key, value = product.args
    axes = [int(axis) for axis in total.attributes["axis"] or ()]
    is_of_rows = axes in ([-1], [len(total.shape) - 1]) and total.attributes["keepdims"]
    if total.args[0] != key or not is_of_rows:
        return None
    if not all(isinstance(tensor, str) for tensor in (query, key, value)):
        return None
    query, key, value = str(query), str(key), str(value)
    if call.is_float(query, key, value):
        return "its attention is over float tensors"
    depth, tokens = call.shapes[key][-2:]
    for terms, most in ((tokens, _MOST_SUMMED), (depth * tokens, _MOST_WEIGHED)):
        if terms > most:
            return f"its sums have {terms} terms, expected at most {most}"
    epsilon_of_all = float(epsilon.flat[0])
    if not 0 < abs(factor) < np.inf or not np.isfinite(epsilon_of_all):
        return "its sums are scaled by 0, or by no number"
    return LinearAttentionNode(
        name=call.name,
        query=query,
        key=key,
        value=value,
        factor=factor,
        epsilon=epsilon_of_all,
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
