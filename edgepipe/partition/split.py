"""Split one Relax module into stage modules; cuts never affect what is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from edgepipe.errors import PartitionError
from edgepipe.names import suggest
from edgepipe.partition.operator import Operator
from edgepipe.partition.operators import match_operators
from edgepipe.tvm_adapter import IRModule, Main, ModuleBuilder, read_main


@dataclass(frozen=True, slots=True, kw_only=True)
class StageModule:
    """One stage of a network.

    ``module`` is a Relax module whose parameters are ``inputs`` (tensors of earlier stages or of
    the network) and whose results are ``outputs``, in these orders; it always returns a tuple.
    """

    module: IRModule = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: tuple[str, ...]


def split(module: IRModule, cuts: Sequence[str]) -> list[StageModule]:
    """Split after each operator named in ``cuts``: n cuts give n + 1 stages, in program order.

    A cut after the last operator makes no empty stage. Raises ``PartitionError`` for an unknown or
    repeated name.
    """
    names = [operator.name for operator in match_operators(module)]
    places = set()
    for cut in cuts:
        if cut not in names:
            raise PartitionError(f"cut {cut!r} is not an operator", hint=suggest(cut, names))
        if names.index(cut) in places:
            raise PartitionError(f"cut {cut!r} is given twice", hint="name each cut once")
        places.add(names.index(cut))
    borders = [0, *sorted(place + 1 for place in places), len(names)]
    groups = [names[a:b] for a, b in pairwise(borders) if a < b]
    return split_by_groups(module, groups)


def split_by_groups(module: IRModule, groups: Sequence[Sequence[str]]) -> list[StageModule]:
    """Make one stage of each group of operator names; each operator is in exactly one group.

    A group's operators run in the given order. A stage passes on the tensors that later stages read
    and those that the network returns; a constant never leaves a stage. Raises ``PartitionError``
    if the groups do not cover the operators exactly, or if a group reads a tensor that is computed
    later.
    """
    main = read_main(module)
    operators = {operator.name: operator for operator in match_operators(module)}
    given = [name for group in groups for name in group]
    unknown = [name for name in given if name not in operators]
    if unknown:
        raise PartitionError(
            f"operator {unknown[0]!r} is unknown", hint=suggest(unknown[0], list(operators))
        )
    missing = [name for name in operators if name not in given]
    if missing or len(given) != len(operators):
        which = missing[0] if missing else next(n for n in given if given.count(n) > 1)
        times = "no group" if missing else f"{given.count(which)} places"
        raise PartitionError(
            f"operator {which!r} is in {times}, expected exactly one",
            hint="name every operator in exactly one group",
        )
    _require_order(main, [[operators[name] for name in group] for group in groups])
    stages = []
    for index, group in enumerate(groups):
        later = {
            tensor
            for following in groups[index + 1 :]
            for name in following
            for tensor in operators[name].inputs
        }
        stages.append(_stage(module, main, [operators[name] for name in group], later))
    return stages


def stage_of(module: IRModule, names: Sequence[str]) -> StageModule:
    """Make a stage of the operators with these names alone, which are in the module's order.

    It passes on the tensors that other operators read and those that the network returns. Raises
    ``PartitionError`` if it would read a tuple.
    """
    main, operators = read_main(module), match_operators(module)
    elsewhere = {
        tensor for other in operators if other.name not in names for tensor in other.inputs
    }
    return _stage(module, main, [each for each in operators if each.name in names], elsewhere)


def _require_order(main: Main, groups: Sequence[Sequence[Operator]]) -> None:
    made = {param.name for param in main.params}
    for group in groups:
        for operator in group:
            early = [tensor for tensor in operator.inputs if tensor not in made]
            if early:
                raise PartitionError(
                    f"{operator.name}: reads {early[0]}, which is made later",
                    hint="order the operators so that each follows its inputs",
                )
            made.add(operator.output)


def _stage(
    module: IRModule, main: Main, operators: Sequence[Operator], later: set[str]
) -> StageModule:
    made = {operator.output for operator in operators}
    inputs = tuple(
        dict.fromkeys(t for operator in operators for t in operator.inputs if t not in made)
    )
    outputs = tuple(
        operator.output
        for operator in operators
        if operator.output in later or operator.output in main.outputs
    )
    types = {p.name: (p.shape, p.dtype) for p in main.params}
    types |= {b.name: (b.shape, b.dtype) for b in main.bindings}
    builder = ModuleBuilder()
    for name in inputs:
        shape, dtype = types[name]
        if dtype == "tuple":
            raise PartitionError(
                f"{name}: is a tuple and cannot go from one stage to another",
                hint="cut after the operators that unpack it",
            )
        builder.param(name, shape, dtype)
    for operator in operators:
        for binding in operator.bindings:
            builder.copy(binding, binding.name, {}, module)
    return StageModule(
        module=builder.finish(outputs, returns_tuple=True),
        inputs=inputs,
        outputs=outputs,
        operators=tuple(operator.name for operator in operators),
    )
