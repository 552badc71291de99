"""One operator on both devices side by side: which can be shared, and the layers of its halves.

    before   conv y: 64 channels
    after    conv y.vta: channels 0 to 31 | conv y.arm: channels 32 to 63; concat y

The accelerator has the first channels, in whole blocks, because channels of whole blocks are
contiguous in its layout. Weights, biases, shifts and residual terms belong to one output channel
each, so the halves compute exactly the bits of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from edgepipe.errors import PartitionError
from edgepipe.partition.operator import Operator
from edgepipe.partition.rules.reasons import reasons
from edgepipe.partition.target import share_text
from vta_stages.layers.records import (
    Concat,
    Conv,
    Epilogue,
    Layer,
    Pick,
    TensorSpec,
    Term,
    TransposedConv,
)

ON_VTA, ON_ARM = ".vta", ".arm"
"""What is added to an operator's name for its halves, which are on these devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """The layers that take the place of an operator, in order, and where they run.

    ``devices`` and ``reasons`` are by name. ``parts`` are the names of the two halves; the last
    layer joins them and has the operator's name. ``picks`` are those of residual terms.
    """

    layers: tuple[Layer, ...]
    parts: tuple[str, str]
    picks: tuple[str, ...]
    devices: Mapping[str, str]
    reasons: Mapping[str, str]


def refusal(operator: Operator) -> str:
    """Return why an operator cannot be divided by output channels, or nothing."""
    layer = operator.layer
    if not isinstance(layer, Conv | TransposedConv):
        return f"it is {operator.kind}, expected a convolution or dense layer in int8"
    if layer.groups > 1:
        return f"it has {layer.groups} groups, each with channels of its own, expected one group"
    return ""


def shares(operator: Operator, block: int) -> tuple[int, ...]:
    """Return the numbers of output channels that ARM can have of an operator, fewest first.

    The accelerator then has at least one block of ``block`` channels, and only whole ones.
    """
    layer = operator.layer
    if refusal(operator) or layer is None:
        return ()
    channels = layer.output.channels
    return tuple(channels - left for left in range((channels - 1) // block * block, 0, -block))


def require(
    operator: Operator,
    arm_channels: int,
    block: int,
    names: Collection[str],
    unable: Mapping[str, str],
) -> None:
    """Raise ``PartitionError`` if ARM cannot have so many output channels of an operator.

    ``block`` is the accelerator's, ``names`` are those of all operators, and ``unable`` says by
    device why one cannot run the operator.
    """
    what = f"{operator.name}: cannot be shared as {share_text(arm_channels)}"
    why = refusal(operator)
    for device, reason in unable.items():
        why = why or f"{device} cannot run it: {reason}"
    if why:
        raise PartitionError(
            f"{what}: {why}",
            hint="place it on one device",
            option="placement",
            value=f"{operator.name}={'vta' if 'arm' in unable else 'arm'}",
        )
    taken = [operator.name + half for half in (ON_VTA, ON_ARM) if operator.name + half in names]
    if taken:
        raise PartitionError(
            f"{what}: its half would be called {taken[0]}, as an operator of the network is",
            hint="rename that operator in the network",
        )
    possible = shares(operator, block)
    if arm_channels in possible:
        return
    assert operator.layer is not None
    channels = operator.layer.output.channels
    if not possible:
        raise PartitionError(
            f"{what}: it has {channels} output channels, expected more than the {block} that vta "
            "computes at once",
            hint="place it on one device",
            option="placement",
            value=f"{operator.name}=vta",
        )
    found = f"leaves {channels - arm_channels} of its {channels} output channels to vta"
    if arm_channels >= channels:
        found = f"it has {channels} output channels, which leaves none to vta"
    nearest = min(possible, key=lambda each: abs(each - arm_channels))
    raise PartitionError(
        f"{what}: {found}, expected a multiple of {block}",
        hint="give arm another number of channels",
        option="placement",
        value=f"{operator.name}={share_text(nearest)}",
    )


def halves(operator: Operator, arm_channels: int, joined_on: str) -> Halves:
    """Return the layers of an operator whose last ``arm_channels`` are on ARM.

    ``require`` must have accepted them. The halves are joined on the device ``joined_on``.
    """
    layer = operator.layer
    assert isinstance(layer, Conv | TransposedConv)
    channels = layer.output.channels
    first_on_arm = channels - arm_channels
    layers: list[Layer] = []
    devices: dict[str, str] = {}
    why: dict[str, str] = {}
    parts: list[TensorSpec] = []
    for device, begin, end in (("vta", 0, first_on_arm), ("arm", first_on_arm, channels)):
        name = f"{layer.name}{ON_VTA if device == 'vta' else ON_ARM}"
        terms = []
        for index, term in enumerate(layer.terms):
            spec = replace(term.tensor, name=f"{name}.term{index}", channels=end - begin)
            layers.append(
                Pick(
                    name=spec.name,
                    input=term.tensor,
                    output=spec,
                    channels=tuple(range(begin, end)),
                )
            )
            devices[spec.name] = device
            why[spec.name] = reasons().picked.format(reader=name)
            terms.append(Term(tensor=spec, factor=term.factor[begin:end]))
        half = _half(layer, name, begin, end, tuple(terms))
        layers.append(half)
        parts.append(half.output)
        devices[name] = device
        why[name] = reasons().shared.format(
            first=begin,
            last=end - 1,
            operator=layer.name,
            other="arm" if device == "vta" else "vta",
            others=channels - (end - begin),
        )
    layers.append(Concat(name=layer.name, inputs=tuple(parts), output=layer.output))
    devices[layer.name] = joined_on
    why[layer.name] = reasons().joined.format(operator=layer.name)
    names = (parts[0].name, parts[1].name)
    picks = tuple(each.name for each in layers if isinstance(each, Pick))
    return Halves(layers=tuple(layers), parts=names, picks=picks, devices=devices, reasons=why)


def _half(
    layer: Conv | TransposedConv, name: str, begin: int, end: int, terms: tuple[Term, ...]
) -> Conv | TransposedConv:
    """Return the output channels ``begin`` to ``end`` of a layer, the latter excluded."""
    output = replace(layer.output, name=name, channels=end - begin)
    epilogue = _sliced(layer.epilogue, begin, end)
    if isinstance(layer, TransposedConv):
        return replace(
            layer,
            name=name,
            output=output,
            weight=layer.weight[:, begin:end],
            epilogue=epilogue,
            terms=terms,
        )
    return replace(
        layer,
        name=name,
        output=output,
        weight=layer.weight[begin:end],
        epilogue=epilogue,
        terms=terms,
        projections=tuple(replace(p, weight=p.weight[begin:end]) for p in layer.projections),
    )


def _sliced(epilogue: Epilogue, begin: int, end: int) -> Epilogue:
    leaky = epilogue.leaky
    return replace(
        epilogue,
        bias=epilogue.bias[begin:end],
        shift=epilogue.shift[begin:end],
        leaky=None if leaky is None else replace(leaky, offset=leaky.offset[begin:end]),
    )
