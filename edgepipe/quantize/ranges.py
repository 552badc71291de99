"""The ranges that int8 tensors cover, from calibration and from what their readers allow."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import QuantizeError
from edgepipe.frontend.given_ranges import GivenRange
from edgepipe.quantize.graph import (
    AttentionNode,
    AveragePoolNode,
    ConcatNode,
    ConvNode,
    FloatNode,
    Graph,
    JoinNode,
    LengthNode,
    LinearAttentionNode,
    MatrixNode,
    MoveNode,
    Node,
    NormNode,
    PickNode,
    PixelNode,
    ProductNode,
    SoftmaxNode,
    SumNode,
    TableNode,
    is_integer,
)
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.scheme import TensorRange
from edgepipe.quantize.zero_points import MOST_ASYMMETRIC, may_have_zero

Float = NDArray[np.float64]
TINY = 1e-8
# A channel that was small during calibration may be larger on other pictures, so it keeps at least
# this share of the tensor's range. (MobileNetV2, logit cosine on 20 pictures, 2026-11: 1 0.9887,
# 1/4 0.9932, 1/8 0.9932; 1/64 saturates when the calibration pictures are few and alike.)
LEAST_SHARE = 1 / 8
# Int16 covers this many times the largest value that calibration saw: one bit costs little there,
# and values on other pictures may be larger.
INT16_HEADROOM = 2.0
_INT16_LARGEST = 127 * 256  # as many steps of int8 as int8 has on either side

_MEASURED = (
    *(ConvNode, SumNode, ProductNode, PixelNode, NormNode, LengthNode, SoftmaxNode, AttentionNode),
    *(LinearAttentionNode, MatrixNode, AveragePoolNode),
)
# A channel's scale becomes part of its weights, factors or row of a table in these, at no cost.
_ABSORBING = ConvNode | SumNode | PixelNode | TableNode
# These are float or int8 as their input is.
_FOLLOWING = PickNode | TableNode


def measured_tensors(graph: Graph) -> list[str]:
    """Return the tensors whose ranges or means ``ToIntegers`` needs."""
    found = dict.fromkeys(needed_ranges(graph))
    for node in graph.nodes:
        if isinstance(node, TableNode):
            found[node.name] = None
        if is_integer(node):
            found.update(dict.fromkeys(node.inputs))
    found.pop(graph.input, None)
    return list(found)


def needed_ranges(graph: Graph) -> list[str]:
    """Return the tensors that get a scale from their own range, not from that of their input."""
    float_made = made_float(graph)
    found: dict[str, None] = {}
    for node in graph.nodes:
        if is_integer(node):
            found.update(dict.fromkeys(name for name in node.inputs if name in float_made))
        if isinstance(node, _MEASURED):
            found[node.name] = None
    return list(found)


def unmeasurable(graph: Graph, measurable: Container[str]) -> set[str]:
    """Return the nodes that need a range which calibration cannot measure.

    They must stay float. ``measurable`` are the tensors that are values of the ONNX network.
    """
    float_made = made_float(graph)
    made_apart = float_made | {node.name for node in graph.nodes if isinstance(node, MoveNode)}
    found = set()
    for node in graph.nodes:
        needed = [i for i in node.inputs if i in made_apart] if is_integer(node) else []
        if isinstance(node, _MEASURED):
            needed.append(node.name)
        if any(name not in measurable for name in needed):
            found.add(node.name)
    return found


def result_nodes(graph: Graph) -> set[str]:
    """Return what only results depend on, apart from layers, pools, sums and softmaxes.

    It is products, normalisations, lengths, matrices, joined results [1, k], and slices of what is
    no picture.
    """
    users = graph.users()
    kinds = ProductNode | NormNode | LengthNode | AttentionNode | LinearAttentionNode | MatrixNode
    return {
        node.name
        for node in graph.nodes
        if (isinstance(node, kinds) or _is_slice(node) or _joins_features(graph, node))
        and not reads_int8(users, node.name)
    }


def _joins_features(graph: Graph, node: Node) -> bool:
    """Return whether a node joins features [1, k], as detectors join the results of their heads."""
    return isinstance(node, ConcatNode | JoinNode) and len(graph.shapes[node.name]) == 2


def _is_slice(node: Node) -> bool:
    return isinstance(node, MoveNode) and node.binding.op == "strided_slice"


def float_softmaxes(graph: Graph) -> set[str]:
    """Return the softmaxes that no integer operator reads, or a float one or an output, too.

    Such are the probabilities of classes and the weights of attention. Sums, and constants for each
    pixel, do not count: they decode results if nothing else follows.
    """
    users = graph.users()
    found = (node.name for node in graph.nodes if isinstance(node, SoftmaxNode))
    return {
        name
        for name in found
        if not _serves_int8(users, name) or _reads_float(users, name, graph.outputs)
    }


def _serves_int8(users: Mapping[str, Sequence[Node]], tensor: str) -> bool:
    """Return whether an integer operator other than those of decoding reads a tensor."""
    passing = (SumNode, PixelNode, MoveNode, PickNode, TableNode)
    return any(
        _serves_int8(users, user.name) if isinstance(user, passing) else is_integer(user)
        for user in users[tensor]
    )


def _reads_float(users: Mapping[str, Sequence[Node]], tensor: str, outputs: Container[str]) -> bool:
    """Return whether a float operator or an output reads a tensor, or what is moved of it."""
    return tensor in outputs or any(
        isinstance(user, FloatNode)
        or (isinstance(user, MoveNode | _FOLLOWING) and _reads_float(users, user.name, outputs))
        for user in users[tensor]
    )


def float_sums(graph: Graph) -> set[str]:
    """Return the sums that read float tensors, and that no integer operator depends on.

    Int8 would only cost precision there: a softmax's result with a small constant before a
    logarithm, or a variance with one before its root, could become 0.
    """
    users = graph.users()
    found = {node.name for node in graph.nodes if isinstance(node, SumNode)}
    while True:
        left_float: set[str] = set()
        for node in graph.nodes:
            is_float = isinstance(node, FloatNode) or node.name in found
            if is_float or (not is_integer(node) and left_float.issuperset(node.inputs)):
                left_float.add(node.name)
        left = {
            node.name
            for node in graph.nodes
            if node.name in found
            and left_float.issuperset(node.inputs)
            and not reads_int8(users, node.name, found)
        }
        if left == found:
            return found
        found = left


def decoding_layers(graph: Graph) -> set[str]:
    """Return the convolutions that weigh the probabilities of a float softmax for results alone.

    YOLOv8's distances are such: the mean of 16 places, weighed by their probabilities. Between two
    float operators, int8 would only cost precision.
    """
    users = graph.users()
    found = set()
    probabilities: set[str] = set()
    for node in graph.nodes:
        is_softmax = isinstance(node, FloatNode) and node.binding.op == "nn.softmax"
        if is_softmax or (isinstance(node, MoveNode) and node.input in probabilities):
            probabilities.add(node.name)
        elif (
            isinstance(node, ConvNode)
            and node.is_projection
            and probabilities.issuperset(node.inputs)
            and not _serves_int8(users, node.name)
        ):
            found.add(node.name)
    return found


def made_float(graph: Graph) -> set[str]:
    """Return the tensors of float operators, and slices and functions of them."""
    found: set[str] = set()
    for node in graph.nodes:
        follows = isinstance(node, _FOLLOWING) and node.input in found
        if isinstance(node, FloatNode) or follows:
            found.add(node.name)
    return found


def reads_int8(
    users: Mapping[str, Sequence[Node]], tensor: str, in_float: Container[str] = ()
) -> bool:
    """Return whether an integer operator reads ``tensor``, or what others move or look up of it.

    The nodes ``in_float`` count as float operators.
    """
    return any(
        (is_integer(user) and user.name not in in_float)
        or (isinstance(user, MoveNode | _FOLLOWING) and reads_int8(users, user.name, in_float))
        for user in users[tensor]
    )


def is_equalised(tensor: str, users: Sequence[Node]) -> bool:
    """Return whether the option ``equalise`` decides about the steps of a tensor's channels.

    ``users`` are the tensor's readers.
    """
    return _is_absorbed(tensor, users) and any(
        isinstance(user, ConvNode) and tensor in user.weighted_inputs and not user.is_depthwise
        for user in users
    )


def _is_absorbed(tensor: str, users: Sequence[Node]) -> bool:
    """Return whether all readers of a tensor allow its channels steps of their own."""
    return bool(users) and all(
        isinstance(user, _ABSORBING) or _only_divides_by(user, tensor) for user in users
    )


def _only_divides_by(user: Node, tensor: str) -> bool:
    """Return whether a tensor is a divisor, whose inverse comes from a row for each channel.

    A function in between can be steep where a channel's own range ends: with one range for all,
    quotients by sigmoids and exponentials were nearer to float by 2 dB and more (2026-11).
    """
    is_quotient = isinstance(user, ProductNode) and user.divides and not user.divisor
    return is_quotient and user.inputs.count(tensor) == 1 and user.inputs[1] == tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The step that an operator's output should have, float64[channels], and its zero point.

    A step that ``is_fixed`` is part of a quantised network whose shifts are exact with it. Others
    may move a little.
    """

    step: Float
    zero: int = 0
    is_fixed: bool = False

    @property
    def most_steps(self) -> int:
        """The steps from the zero point to the largest int8 value."""
        return 127 - self.zero


class Ranges:
    """The ranges that the int8 forms of a graph's tensors must cover, and their means.

    ``given`` are ranges that replace the measured ones, and ``fixed`` are steps that tensors must
    have exactly, both by tensor. ``all_int8`` is the graph before layers became float on request:
    its readers decide which channels share a range, so the other layers keep theirs.
    """

    def __init__(
        self,
        graph: Graph,
        measured: Mapping[str, TensorRange],
        options: QuantizeOptions,
        given: Mapping[str, GivenRange] = MappingProxyType({}),
        fixed: Mapping[str, float] = MappingProxyType({}),
        all_int8: Graph | None = None,
    ) -> None:
        self.fixed = fixed
        self._given = given
        self._graph = graph
        self._users = graph.users() | (all_int8.users() if all_int8 else {})
        self._measured = measured
        self._options = options
        self._may_have_zero = may_have_zero(graph, fixed)

    def target(self, tensor: str, high: float = np.inf) -> Target:
        """Return the step that ``tensor`` should have, if its values are at most ``high``.

        Raises QuantizeError for a tensor that was not measured.
        """
        if tensor in self.fixed:
            step = np.full(self._graph.channels(tensor), self.fixed[tensor])
            return Target(step=step, is_fixed=True)
        covered = np.minimum(self.covered(tensor), high)
        if tensor in self._may_have_zero:  # and one-sided: functions have a target of their own
            return Target(step=covered / (127 + 128), zero=-128)
        return Target(step=covered / 127)

    def converted_target(self, tensor: str) -> Target:
        """Return the one step of a float tensor that is converted to int8, without a zero point.

        Raises QuantizeError for a tensor that was not measured.
        """
        channels = self._graph.channels(tensor)
        if tensor in self.fixed:
            return Target(step=np.full(channels, self.fixed[tensor]), is_fixed=True)
        return Target(step=np.full(channels, self.covered(tensor).max() / 127))

    def int16_step(self, tensor: str, high: float = np.inf) -> float:
        """Return the one step of a tensor's int16 form, if its values are at most ``high``.

        Raises QuantizeError for a tensor that was not measured.
        """
        if tensor in self.fixed:
            return self.fixed[tensor] / 256
        if tensor in self._given:
            return min(float(self.covered(tensor).max()), high) / _INT16_LARGEST
        found = self._measured.get(tensor)
        if found is None:
            raise _unmeasured(tensor)
        largest = max(float(found.magnitude.max()), found.threshold, TINY)
        return min(INT16_HEADROOM * largest, high) / _INT16_LARGEST

    def int16_table_step(self, tensor: str, values: Float) -> float:
        """Return the one step of the int16 form of a function's results.

        ``values`` are the results, float64[rows, entries].
        """
        largest = max(float(np.abs(values).max()), TINY) / _INT16_LARGEST
        return min(self.int16_step(tensor), largest) if tensor in self._measured else largest

    def table_target(self, tensor: str, values: Float) -> Target:
        """Return the steps and the zero point for a function's results ``values``.

        ``values`` is float64[rows, entries]. Channels whose readers allow it have steps of their
        own, unless they share a table.
        """
        channels = self._graph.channels(tensor)
        if tensor in self.fixed:
            return Target(step=np.full(channels, self.fixed[tensor]), is_fixed=True)
        covered = self.covered_by(tensor, values)
        if self._options.one_table:
            covered = covered.max(keepdims=True)
        low, high = self._extents(tensor, values, covered)
        zero = _best_zero(low, high) if tensor in self._may_have_zero else 0
        step = covered / 127 if zero == 0 else _steps(low, high, zero)
        return Target(step=np.broadcast_to(step, channels).copy(), zero=zero)

    def _extents(self, tensor: str, values: Float, covered: Float) -> tuple[Float, Float]:
        """Return what int8 covers of a function's results: from zero or below, to zero or above.

        Both are float64[channels] if ``covered`` is.
        """
        low, high = values.min(axis=1), values.max(axis=1)
        found = self._measured.get(tensor)
        if found is not None:
            low, high = np.maximum(low, found.low.min()), np.minimum(high, found.high.max())
        return (
            np.maximum(np.minimum(low, 0.0), -covered),
            np.maximum(np.minimum(np.maximum(high, 0.0), covered), TINY),
        )

    def covered(self, tensor: str) -> Float:
        """Return the magnitude to cover for each channel.

        A given range counts in place of the measured one. All channels share one if the tensor's
        readers need that. Slices that are read separately get one each. If only convolutions, sums
        and functions read the tensor, their weights, factors and tables can absorb a scale per
        channel: fully before a function, which has a row for each channel, before a sum or as a
        residual, which have a factor for each, and before a depthwise convolution, which has a
        separate weight step for each; before other weights by a channel's share to the power
        ``equalise`` (0 gives coarser activations, 1 coarser weights; Nagel et al., Data-Free
        Quantization, 2019). The result is float64[channels]. Raises QuantizeError for a tensor
        that was not measured.

        Mean logit cosine, 2026-11, one scale for all channels and one each: of a function's,
        PP-LCNet 0.984 and 0.9996, the map of PP-OCR det 0.938 and 0.959; of a sum's and a
        residual's, MobileNetV2 0.9916 and 0.9928. Products and average pools read one: with a scale
        each for what they read, PP-OCR cls fell to 0.961.
        """
        found = self._measured.get(tensor)
        if found is None:
            raise _unmeasured(tensor)
        channels = self._graph.channels(tensor)
        given = self._given.get(tensor)
        if given is None:
            whole = max(found.threshold, TINY)
        else:
            whole = min(given.largest, given.int8_step * 127)
        result = np.full(channels, whole)
        users = self._users[tensor]
        if users and all(isinstance(user, PickNode) for user in users):
            for user in users:
                assert isinstance(user, PickNode)
                part = list(user.channels)
                result[part] = min(whole, max(float(found.magnitude[part].max()), TINY))
        elif _is_absorbed(tensor, users) and not self._has_one_table(users):
            own = np.clip(found.magnitude, whole * LEAST_SHARE, whole)
            strength = self._options.of(tensor).equalise if is_equalised(tensor, users) else 1.0
            result = whole ** (1 - strength) * own**strength
        return result

    def _has_one_table(self, users: Sequence[Node]) -> bool:
        """Return whether a reader looks all channels up in one table, so they share a step."""
        return self._options.one_table and any(
            isinstance(user, TableNode) and reads_int8(self._users, user.name) for user in users
        )

    def covered_by(self, tensor: str, values: Float) -> Float:
        """Return the magnitude that a function's result has to cover.

        ``values`` are its results, float64[rows, entries]. What calibration saw counts if it is
        less and the result is a value of the ONNX network. The result is float64[channels] or [1].
        """
        largest: Float = np.maximum(np.abs(values).max(axis=1), TINY)
        if tensor not in self._measured:
            every: Float = largest.max(keepdims=True)
            return every
        covered: Float = np.minimum(self.covered(tensor), largest.max())
        return covered

    def mean(self, tensor: str) -> Float | None:
        """Return the mean of every channel of a float tensor, if it was measured.

        The result is float64[channels].
        """
        found = self._measured.get(tensor)
        return None if found is None else found.mean


def _unmeasured(tensor: str) -> QuantizeError:
    return QuantizeError(
        f"{tensor}: its range is unknown, because it is not a value of the ONNX network",
        hint="decompose the ONNX operator that it is part of",
    )


def _steps(low: Float, high: Float, zero: int) -> Float:
    """Return the least steps at which int8 with a zero point covers ``low`` to ``high``."""
    below, above = 128 + zero, 127 - zero
    steps: Float = np.maximum(
        -low / below if below else np.where(low < 0, np.inf, 0.0),
        high / above if above else np.where(high > 0, np.inf, 0.0),
    )
    return steps


def _best_zero(low: Float, high: Float) -> int:
    """Return the zero point at which the squares of all channels' steps are least.

    It is 0 if another one gains little.
    """
    zeros = range(-128, 128)
    errors = [float(np.square(_steps(low, high, zero)).sum()) for zero in zeros]
    best = int(np.argmin(errors))
    plain = np.square(np.maximum(-low, high) / 127).sum()
    return zeros[best] if errors[best] < plain * MOST_ASYMMETRIC**2 else 0
