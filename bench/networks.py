"""Integer networks with the shapes of well-known networks, as layer records with synthetic weights.

A body is all layers except the first convolution, which runs on the ARM cores. Weights, biases and
shifts are random but typical of the quantiser: shifts differ by channel, a residual's factor is
finer than int8, and no clip can be proven superfluous.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgepipe.quantize.leaky import leaky as quantised_leaky
from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.records import (
    Concat,
    Conv,
    Epilogue,
    Layer,
    MaxPool,
    Projection,
    Resize,
    TensorSpec,
    Term,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A network to compile; ``made_up`` says that its weights are random."""

    name: str
    layers: tuple[Layer, ...]
    made_up: bool = True

    @property
    def inputs(self) -> tuple[str, ...]:
        """Tensors that are read but not computed, in order of use."""
        made = {layer.output.name for layer in self.layers}
        read = [spec.name for layer in self.layers for spec in layer_inputs(layer)]
        return tuple(dict.fromkeys(name for name in read if name not in made))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Tensors that are computed but not read."""
        read = {spec.name for layer in self.layers for spec in layer_inputs(layer)}
        made = (layer.output.name for layer in self.layers)
        return tuple(name for name in made if name not in read)

    @property
    def macs(self) -> int:
        """The multiplications of all convolutions, including those with padding."""
        return sum(layer_macs(layer) for layer in self.layers)


def layer_macs(layer: Layer) -> int:
    """Return the multiplications of a convolution or dense layer; poolings and sums have none."""
    if not isinstance(layer, Conv) or is_pooling(layer):
        return 0
    weights = layer.weight.size + sum(added.weight.size for added in layer.projections)
    return weights * layer.output.height * layer.output.width


def body_convolutions(workload: Workload) -> tuple[Layer, ...]:
    """Return the layers with multiplications, except the classifier, which is the last layer."""
    return tuple(layer for layer in workload.layers[:-1] if layer_macs(layer))


def is_depthwise(layer: Layer) -> bool:
    """Whether a layer is a depthwise convolution or an average pooling."""
    return isinstance(layer, Conv) and layer.groups == layer.input.channels > 1


def is_pooling(layer: Conv) -> bool:
    """Whether a layer is an average pooling: a depthwise convolution with one constant."""
    return is_depthwise(layer) and bool((layer.weight == layer.weight.flat[0]).all())


@dataclass(slots=True)
class Builder:
    """Appends layers; each method returns the new layer's output."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    layers: list[Layer] = field(default_factory=list)

    def tensor(self, name: str, channels: int, height: int, width: int) -> TensorSpec:
        """Return a tensor, which may be an input of the network."""
        return TensorSpec(name=name, channels=channels, height=height, width=width)

    def conv(
        self,
        source: TensorSpec,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        relu: bool = True,
        leaky: bool = False,
        add: TensorSpec | None = None,
        project: TensorSpec | None = None,
    ) -> TensorSpec:
        """Append a convolution with "same" padding.

        A residual ``add``, or ``project`` through a 1x1 convolution, is added in its accumulator.
        """
        pad = (kernel - 1) // 2
        height, width = (
            (extent + 2 * pad - kernel) // stride + 1 for extent in (source.height, source.width)
        )
        inputs = source.channels // groups
        shift = 7 + int(np.log2(inputs * kernel * kernel)) // 2
        shifts = (shift + self.rng.integers(0, 3, channels)).astype(np.int32)
        weight = self.rng.normal(0, 40, (channels, inputs, kernel, kernel))
        factor = (97 << (1 + shifts - shift)).astype(np.int32)
        self.layers.append(
            Conv(
                name=f"conv{len(self.layers)}_{kernel}x{kernel}_{channels}",
                input=source,
                output=self.tensor(f"t{len(self.layers)}", channels, height, width),
                weight=np.clip(np.round(weight), -127, 127).astype(np.int8),
                epilogue=self._epilogue(shifts, relu and not leaky, leaky),
                stride=(stride, stride),
                padding=(pad,) * 4,
                groups=groups,
                terms=() if add is None else (Term(tensor=add, factor=factor),),
                projections=()
                if project is None
                else (self._projection(project, channels, height),),
            )
        )
        return self.layers[-1].output

    def _projection(self, source: TensorSpec, channels: int, height: int) -> Projection:
        weight = self.rng.normal(0, 40, (channels, source.channels))
        return Projection(
            tensor=source,
            weight=np.clip(np.round(weight), -127, 127).astype(np.int8),
            stride=(source.height // height,) * 2,
        )

    def _epilogue(self, shifts: np.ndarray, relu: bool, leaky: bool) -> Epilogue:
        rounding = (1 << (shifts - 1)).astype(np.int32)
        spread = self.rng.integers(-20, 20, len(shifts)) << shifts
        branch = None
        if leaky:
            branch, rounding = quantised_leaky(0.1, shifts)
        return Epilogue(
            bias=(rounding + spread).astype(np.int32),
            shift=shifts,
            low=0 if relu else -128,
            high=127,
            leaky=branch,
        )

    def max_pool(
        self, source: TensorSpec, kernel: int, stride: int, pads: tuple[int, int, int, int]
    ) -> TensorSpec:
        """Append a maximum over square windows; pads are top, left, bottom, right."""
        height = (source.height + pads[0] + pads[2] - kernel) // stride + 1
        width = (source.width + pads[1] + pads[3] - kernel) // stride + 1
        self.layers.append(
            MaxPool(
                name=f"pool{len(self.layers)}_{kernel}x{kernel}",
                input=source,
                output=self.tensor(f"t{len(self.layers)}", source.channels, height, width),
                kernel=(kernel, kernel),
                stride=(stride, stride),
                padding=pads,
            )
        )
        return self.layers[-1].output

    def global_pool(self, source: TensorSpec) -> TensorSpec:
        """Append the average over the picture: a depthwise convolution with one constant."""
        shape = (source.channels, 1, source.height, source.width)
        shift = 6 + int(np.log2(source.height * source.width))
        value = round((1 << shift) / (source.height * source.width))
        shifts = np.full(source.channels, shift, np.int32)
        self.layers.append(
            Conv(
                name=f"average{len(self.layers)}",
                input=source,
                output=self.tensor(f"t{len(self.layers)}", source.channels, 1, 1),
                weight=np.full(shape, min(value, 127), np.int8),
                epilogue=Epilogue(
                    bias=(1 << (shifts - 1)).astype(np.int32), shift=shifts, low=-128, high=127
                ),
                groups=source.channels,
            )
        )
        return self.layers[-1].output

    def upsample(self, source: TensorSpec) -> TensorSpec:
        """Append nearest-neighbour upsampling by two."""
        rows, cols = (
            np.repeat(np.eye(extent, dtype=np.int32), 2, axis=0)
            for extent in (source.height, source.width)
        )
        height, width = 2 * source.height, 2 * source.width
        self.layers.append(
            Resize(
                name=f"upsample{len(self.layers)}",
                input=source,
                output=self.tensor(f"t{len(self.layers)}", source.channels, height, width),
                rows=rows,
                cols=cols,
                shift=0,
            )
        )
        return self.layers[-1].output

    def concat(self, *parts: TensorSpec) -> TensorSpec:
        """Append a concatenation along the channels."""
        channels = sum(part.channels for part in parts)
        output = self.tensor(f"t{len(self.layers)}", channels, parts[0].height, parts[0].width)
        name = f"concat{len(self.layers)}"
        self.layers.append(Concat(name=name, inputs=parts, output=output))
        return output

    def done(self, name: str) -> Workload:
        """Return the network."""
        return Workload(name=name, layers=tuple(self.layers))


def resnet18_body() -> Workload:
    """ResNet-18 at 224x224 after its 7x7 convolution: max pooling to classifier."""
    build = Builder()
    at = build.max_pool(build.tensor("x", 64, 112, 112), 3, 2, (1, 1, 0, 0))
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            inner = build.conv(at, channels, 3, stride=stride)
            shortcut = {"add": at} if stride == 1 else {"project": at}
            at = build.conv(inner, channels, 3, **shortcut)
    build.conv(build.global_pool(at), 1000, 1, relu=False)
    return build.done("resnet18 body")


def resnet50_body() -> Workload:
    """ResNet-50 v1 at 224x224 (the stride in a block's first 1x1) after its 7x7 convolution."""
    build = Builder()
    at = build.max_pool(build.tensor("x", 64, 112, 112), 3, 2, (1, 1, 0, 0))
    for stage, (channels, blocks) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            inner = build.conv(at, channels, 1, stride=stride)
            inner = build.conv(inner, channels, 3)
            shortcut = {"add": at} if block else {"project": at}
            at = build.conv(inner, 4 * channels, 1, **shortcut)
    build.conv(build.global_pool(at), 1000, 1, relu=False)
    return build.done("resnet50_v1 body")


def yolov3_tiny_body() -> Workload:
    """YOLOv3-tiny at 416x416 after its first convolution with pooling.

    The layers of darknet's cfg/yolov3-tiny.cfg, 80 classes.
    """
    build = Builder()
    at = build.tensor("x", 16, 208, 208)
    for channels in (32, 64, 128):
        at = build.max_pool(build.conv(at, channels, 3, leaky=True), 2, 2, (0, 0, 0, 0))
    fine = build.conv(at, 256, 3, leaky=True)
    at = build.max_pool(fine, 2, 2, (0, 0, 0, 0))
    at = build.max_pool(build.conv(at, 512, 3, leaky=True), 2, 1, (0, 0, 1, 1))
    at = build.conv(build.conv(at, 1024, 3, leaky=True), 256, 1, leaky=True)
    build.conv(build.conv(at, 512, 3, leaky=True), 255, 1, relu=False)
    up = build.upsample(build.conv(at, 128, 1, leaky=True))
    at = build.conv(build.concat(up, fine), 256, 3, leaky=True)
    build.conv(at, 255, 1, relu=False)
    return build.done("yolov3-tiny body")


def mobilenet_v2_stem() -> Layer:
    """Return the convolution before :func:`mobilenet_v2_body`."""
    build = Builder()
    output = build.conv(build.tensor("image", 3, 224, 224), 32, 3, stride=2)
    return dataclasses.replace(
        build.layers[0], name="stem", output=dataclasses.replace(output, name="x")
    )


def mobilenet_v2_body() -> Workload:
    """MobileNetV2 at 224x224 after its first convolution."""
    build = Builder()
    at = build.tensor("x", 32, 112, 112)
    plan: Sequence[tuple[int, int, int, int]] = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    )  # fmt: skip
    for expansion, channels, blocks, first_stride in plan:
        for block in range(blocks):
            stride = 1 if block else first_stride
            inner = at
            if expansion > 1:
                inner = build.conv(at, expansion * at.channels, 1)
            inner = build.conv(inner, inner.channels, 3, stride=stride, groups=inner.channels)
            residual = at if stride == 1 and at.channels == channels else None
            at = build.conv(inner, channels, 1, relu=False, add=residual)
    at = build.global_pool(build.conv(at, 1280, 1))
    build.conv(at, 1000, 1, relu=False)
    return build.done("mobilenet_v2 body")


def single(height: int, inputs: int, outputs: int, kernel: int, stride: int) -> Workload:
    """One convolution with ReLU."""
    build = Builder()
    build.conv(build.tensor("x", inputs, height, height), outputs, kernel, stride=stride)
    return build.done(f"{height}x{height} {inputs}->{outputs} {kernel}x{kernel}/{stride}")


RESNET18_LAYERS: dict[str, Callable[[], Workload]] = {
    "C2": lambda: single(56, 64, 64, 3, 1),
    "C3": lambda: single(56, 64, 128, 3, 2),
    "C4": lambda: single(56, 64, 128, 1, 2),
    "C5": lambda: single(28, 128, 128, 3, 1),
    "C6": lambda: single(28, 128, 256, 3, 2),
    "C7": lambda: single(28, 128, 256, 1, 2),
    "C8": lambda: single(14, 256, 256, 3, 1),
    "C9": lambda: single(14, 256, 512, 3, 2),
    "C10": lambda: single(14, 256, 512, 1, 2),
    "C11": lambda: single(7, 512, 512, 3, 1),
}
"""The layer shapes of TVM's VTA benchmarks."""
