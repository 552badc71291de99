"""Recognise operators that have an integer form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from edgepipe.quantize import arithmetic_rules, attention, picture_rules
from edgepipe.quantize.call import Call
from edgepipe.quantize.graph import (
    AttentionNode,
    FloatNode,
    Graph,
    LengthNode,
    LinearAttentionNode,
    MatrixNode,
    Node,
    NormNode,
    TableNode,
    is_integer,
    picture_shape,
)
from edgepipe.tvm_adapter import Binding


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognise:
    """Turn every call that a rule knows into a node of its kind; say why the others stay float.

    before   FloatNode c = nn.conv2d(x, const); FloatNode r = nn.relu(c); FloatNode s = softmax(r)
    after    ConvNode c; SumNode r = max(c, 0); FloatNode s, reason "it has no integer form"

    ``keep_float`` names calls that must stay float even if a rule knows them, with the reason.
    """

    keep_float: Mapping[str, str] = field(default_factory=dict)

    def requires(self, before: Graph) -> Iterator[str]:
        """Nothing is recognised yet but normalisations, lengths and functions of one number."""
        for node in before.nodes:
            if not isinstance(node, FloatNode | NormNode | LengthNode | TableNode):
                yield f"{node.name} is a {type(node).__name__} already"

    def apply(self, before: Graph) -> Graph:
        """Return the graph with the recognised nodes; the others have a reason."""
        nodes: dict[str, Node] = {}
        bindings = {n.name: n.binding for n in before.nodes if isinstance(n, FloatNode)}
        scores = attention.scores(bindings)
        for node in before.nodes:
            if not isinstance(node, FloatNode):
                nodes[node.name] = node
                continue
            call = Call(node.binding, before.shapes, nodes, bindings, scores)
            made = node if node.reason else self._recognised(call)
            if isinstance(made, str):
                made = replace(node, reason=f"stays float: {made}")
            nodes[node.name] = made
        return replace(before, nodes=tuple(nodes.values()))

    def ensures(self, before: Graph, after: Graph) -> Iterator[str]:
        """The same tensors; integer ones are pictures or matrices; float nodes have a reason."""
        if [node.name for node in after.nodes] != [node.name for node in before.nodes]:
            yield "the tensors are not the same as before"
        for node in after.nodes:
            if isinstance(node, FloatNode) and not node.reason:
                yield f"{node.name} stays float without a reason"
            if is_integer(node) and node.name in self.keep_float:
                yield f"{node.name} is integer, expected float"
            is_free = isinstance(node, AttentionNode | LinearAttentionNode | MatrixNode)
            if is_integer(node) and not is_free and picture_shape(after.shapes[node.name]) is None:
                yield f"{node.name} is {list(after.shapes[node.name])}, expected a picture"

    def _recognised(self, call: Call) -> Node | str:
        """Return the call's node, or the reason why there is none."""
        if call.name in self.keep_float:
            return self.keep_float[call.name]
        rule = RULES.get(call.op)
        if rule is None:
            return "it has no integer form"
        if not _computes_float(call.binding):
            return f"its output is {call.binding.dtype}"
        return rule(call)


def _computes_float(binding: Binding) -> bool:
    """Return whether the result is float32; a split's results are those of its parts."""
    return binding.dtype == "float32" or binding.op == "split"


RULES: dict[str, Callable[[Call], Node | str]] = {
    "add": arithmetic_rules.elementwise,
    "subtract": arithmetic_rules.elementwise,
    "multiply": arithmetic_rules.elementwise,
    "divide": arithmetic_rules.quotient,
    "nn.relu": arithmetic_rules.activation,
    "nn.leakyrelu": arithmetic_rules.activation,
    "clip": arithmetic_rules.activation,
    "maximum": arithmetic_rules.activation,
    "minimum": arithmetic_rules.activation,
    "nn.conv2d": arithmetic_rules.conv,
    "nn.conv2d_transpose": arithmetic_rules.conv,
    "matmul": arithmetic_rules.matrix_product,
    "nn.max_pool2d": picture_rules.max_pool,
    "nn.avg_pool2d": picture_rules.average_pool,
    "mean": picture_rules.whole_picture,
    "max": picture_rules.whole_picture,
    "image.resize2d": picture_rules.resize,
    "nn.softmax": picture_rules.softmax,
    "concat": picture_rules.concat,
    "split": picture_rules.split,
    "tuple_get_item": picture_rules.part_of_split,
    "take": picture_rules.pick,
    "strided_slice": picture_rules.channel_slice,
    "reshape": picture_rules.move,
    "permute_dims": picture_rules.move,
}
