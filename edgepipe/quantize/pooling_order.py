"""Find the largest values before a function is looked up, where a network ends in such a pool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from edgepipe.names import unique_name
from edgepipe.quantize.graph import Graph, MaxPoolNode, Node, TableNode, is_integer
from edgepipe.quantize.ranges import reads_int8
from edgepipe.tvm_adapter import Binding

_REASON = "the function before it is looked up in a table on arm"

# Functions that fall nowhere and give a number for every finite argument. Infinity is none:
# ``functions.evaluate`` makes the largest finite result of it, which keeps the order, too.
_RISING = frozenset(["astype", "clip", "erf", "exp", "nn.relu", "sigmoid", "tanh"])
_RISING_WITH_A_CONSTANT = frozenset(["add", "maximum", "minimum"])


@dataclass(frozen=True, slots=True)
class PoolFirst:
    """Pool the argument of a function instead of its result, if only results depend on the pool.

    before   ConvNode x; TableNode y = sigmoid(x); MaxPoolNode p = largest of y; outputs y and p
    after    ConvNode x; TableNode y = sigmoid(x); MaxPoolNode p.pooled = largest of x;
             TableNode p = sigmoid(p.pooled)

    CenterNet finds peaks so. Tables run on ARM and pools on the VTA, so the pool would be a stage
    of its own behind the table, between two hops. A function that falls nowhere has its largest
    result at its largest argument, so both orders give the same number. Results are looked up as
    float then, where they were rounded to int8 for the pool.
    """

    def requires(self, before: Graph) -> Iterator[str]:
        """Nothing but a well-formed graph."""
        return iter(())

    def apply(self, before: Graph) -> Graph:
        """Return the graph; a function stays for its other readers."""
        made: dict[str, Node] = {node.name: node for node in before.nodes}
        users = before.users()
        shapes = dict(before.shapes)
        nodes: list[Node] = []
        for node in before.nodes:
            table = made.get(node.input) if isinstance(node, MaxPoolNode) else None
            if (
                not isinstance(node, MaxPoolNode)
                or not isinstance(table, TableNode)
                or not is_integer(made.get(table.input, table))
                or reads_int8(users, node.name)
                or not _never_falls(table)
            ):
                nodes.append(node)
                continue
            name = unique_name(f"{node.name}.pooled", shapes)
            shapes[name] = shapes[node.name]
            nodes += [
                replace(node, name=name, input=table.input),
                _renamed(table, name, node.name),
            ]
        return replace(before, nodes=tuple(nodes), shapes=shapes)

    def ensures(self, before: Graph, after: Graph) -> Iterator[str]:
        """The same outputs; every tensor of before is still there, in its shape."""
        if after.outputs != before.outputs:
            yield f"the outputs are {after.outputs}, expected {before.outputs}"
        names = {node.name for node in after.nodes}
        for node in before.nodes:
            if node.name not in names:
                yield f"{node.name} is missing"
            elif after.shapes[node.name] != before.shapes[node.name]:
                yield f"{node.name} has another shape"


def _never_falls(table: TableNode) -> bool:
    """Return whether a larger argument never gives a smaller result: a chain of calls that rise."""
    before = table.input
    for binding in table.bindings:
        if not _rises(binding, before):
            return False
        before = binding.name
    return True


def _rises(binding: Binding, before: str) -> bool:
    """Return whether a call rises with tensor ``before``, the only one that it reads."""
    tensors = [argument for argument in binding.args if isinstance(argument, str)]
    if tensors != [before]:
        return False
    if binding.op in _RISING:
        return True
    if binding.op == "nn.leakyrelu":
        return float(binding.attributes["alpha"]) >= 0
    is_first = isinstance(binding.args[0], str)
    if binding.op in _RISING_WITH_A_CONSTANT or (binding.op == "subtract" and is_first):
        return True
    if binding.op == "multiply" or (binding.op == "divide" and is_first):
        constants = [argument for argument in binding.args if not isinstance(argument, str)]
        return all(bool(np.all(np.asarray(constant) > 0)) for constant in constants)
    return False


def _renamed(table: TableNode, source: str, name: str) -> TableNode:
    """Return the same function of tensor ``source``, as ``name``."""
    last = len(table.bindings) - 1
    names = {table.input: source}
    bindings = []
    for index, binding in enumerate(table.bindings):
        names[binding.name] = name if index == last else f"{name}__step{index}"
        args = tuple(names[a] if isinstance(a, str) else a for a in binding.args)
        bindings.append(replace(binding, name=names[binding.name], args=args))
    return TableNode(name=name, reason=_REASON, input=source, bindings=tuple(bindings))
