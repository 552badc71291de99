"""Write the integer network as a Relax module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from edgepipe.quantize import integers, normal_forms
from edgepipe.quantize.int16 import forms as int16_forms
from edgepipe.quantize.int16.records import WideOperation
from edgepipe.quantize.normalising import forms as norm_forms
from edgepipe.quantize.normalising.records import Length, Norm
from edgepipe.quantize.on_arm import forms as on_arm_forms
from edgepipe.quantize.on_arm.records import ArmOperation
from edgepipe.tvm_adapter import IRModule, ModuleBuilder, read_main


@dataclass(frozen=True, slots=True)
class WriteRelax:
    """Write every operator in its normal form.

    before   Conv y: x, weight, bias, shift, clip
    after    y__acc = nn.conv2d(x, weight); y__biased = add(y__acc, bias); ...; y = astype(...)

    ``source`` is the float module that copied calls come from.
    """

    source: IRModule = field(repr=False)

    def requires(self, before: integers.IntegerNetwork) -> Iterator[str]:
        """Nothing but a well-formed network."""
        return iter(())

    def apply(self, before: integers.IntegerNetwork) -> IRModule:
        """Return an integer Relax module; several outputs are returned as a tuple."""
        builder = ModuleBuilder()
        builder.param(before.input, before.frame_shape, "uint8")
        for operation in before.operations:
            self.write(builder, operation)
        return builder.finish(tuple(before.outputs), returns_tuple=len(before.outputs) > 1)

    def ensures(self, before: integers.IntegerNetwork, after: IRModule) -> Iterator[str]:
        """The outputs are float32 in the float network's shapes; scaled tensors are integers."""
        main = read_main(after)
        if main.outputs != tuple(before.outputs):
            yield f"the outputs are {main.outputs}, expected {tuple(before.outputs)}"
        made = {binding.name: binding for binding in main.bindings}
        for name, shape in before.outputs.items():
            found = made.get(name)
            if found is None or (found.dtype, found.shape) != ("float32", shape):
                yield f"output {name} is not float32{list(shape)}"
        for name in before.scales:
            if name not in made or made[name].dtype != "int8":
                yield f"{name} has a scale, but is not an int8 tensor"
        for name in before.int16_scales:
            if name not in made or made[name].dtype != "int16":
                yield f"{name} has a scale of int16, but is not an int16 tensor"

    def write(self, builder: ModuleBuilder, operation: integers.Operation) -> None:
        """Append one operator in its normal form; its inputs must be bound already."""
        name = operation.name
        match operation:
            case integers.InputTable():
                normal_forms.write_input_table(builder, name, operation.frame, operation.table)
            case integers.ToInt8():
                normal_forms.write_quantize(
                    builder, name, operation.tensor, operation.step, reshape=operation.shape
                )
            case integers.ToFloat():
                normal_forms.write_dequantize(
                    builder, name, operation.tensor, operation.step, reshape=operation.shape
                )
            case integers.Lookup():
                normal_forms.write_table(builder, name, operation.tensor, operation.table)
            case integers.ChannelPick():
                normal_forms.write_pick(builder, name, operation.tensor, operation.channels)
            case integers.Reshape():
                builder.emit(name, "reshape", operation.tensor, operation.shape)
            case integers.Copied():
                builder.copy(operation.binding, name, operation.renamed, self.source)
            case Norm() | Length():
                norm_forms.write(builder, operation)
            case _ if isinstance(operation, WideOperation):
                int16_forms.write(builder, operation)
            case _ if isinstance(operation, ArmOperation):
                on_arm_forms.write(builder, operation)
            case _:
                normal_forms.write_layer(builder, operation)
