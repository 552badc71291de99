"""Outputs as `edgepipe init` sees them, and what it recognises in them."""

from __future__ import annotations

from collections.abc import Sequence

from edgepipe.description import Postprocess
from edgepipe.drafting.head import Head
from edgepipe.drafting.heads import recognise
from edgepipe.drafting.metadata import Metadata
from edgepipe.drafting.probe import Output

Shapes = list[tuple[int, ...]]


def recognised(
    shapes: Shapes,
    size: tuple[int, int],
    makers: str = "Conv",
    producer: str = "pytorch",
    labels: int = 0,
    *,
    task: str = "",
    names: Sequence[str] = (),
    range_: tuple[float, float] = (0.0, 0.0),
) -> Head:
    """Recognise outputs of ``shapes``, made by the ``makers``, one or one for each output.

    Their values are within ``range_``, those of Sigmoid and Softmax from 0 to 1.
    """
    kinds = makers.split() * (1 if " " in makers else len(shapes))
    metadata = Metadata(
        producer=producer,
        is_ultralytics=bool(task),
        labels=("thing",) * labels,
        labels_key="names" if labels else "",
        size=(0, 0),
        task=task,
    )
    outputs = [
        Output(
            name=names[i] if names else f"o{i}",
            shape=shape,
            maker=kind,
            are_shares=kind in ("Sigmoid", "Softmax"),
            least=range_[0],
            largest=range_[1],
        )
        for i, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))
    ]
    return recognise(outputs, *size, metadata)


def described(head: Head) -> Postprocess:
    """Return the description that a head becomes; raise FrontendError if it is inconsistent."""
    settings = {setting.key: setting.value for setting in head.settings}
    return Postprocess(kind=head.kind, **settings)  # type: ignore[arg-type]


def guesses(head: Head) -> set[str]:
    """Return the keys that are marked as guesses."""
    marked = {setting.key for setting in head.settings if setting.is_guess}
    return marked | ({"kind"} if head.is_guess else set())
