"""Replace layers of an integer network by other layers that compute the same tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from edgepipe.quantize.normal_forms import write_layer
from edgepipe.tvm_adapter import IRModule, ModuleBuilder, read_main
from vta_stages.layers.records import Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What takes the place of one operator: ``layers`` in order, the last of its name.

    ``bindings`` are the names of all variables of the operator.
    """

    bindings: Collection[str]
    layers: Sequence[Layer]


def replaced(module: IRModule, replacements: Mapping[str, Replacement]) -> IRModule:
    """Return integer Relax in which operators, by name, are replaced by layers in normal form.

    before   y__acc = nn.conv2d(x, weight); ...; y = astype(y__clipped)
    after    y.vta__acc = ...; y.vta = ...; y.arm__acc = ...; y.arm = ...; y = concat(y.vta, y.arm)

    The last layer computes the operator's tensor, int8[1, c, h, w], in the shape that it had. Every
    other binding stays, with its name. Raises ``ValueError`` if a layer has the name of a variable
    that is there.
    """
    main = read_main(module)
    builder = ModuleBuilder()
    for param in main.params:
        builder.param(param.name, param.shape, param.dtype)
    gone = {name: last for last, each in replacements.items() for name in each.bindings}
    for binding in main.bindings:
        if binding.name not in gone:
            builder.copy(binding, binding.name, {}, module)
        elif binding.name == gone[binding.name]:
            for layer in replacements[binding.name].layers:
                write_layer(builder, layer)
    return builder.finish(main.outputs, returns_tuple=main.returns_tuple)
