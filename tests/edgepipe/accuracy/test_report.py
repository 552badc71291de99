"""The chart of all layers."""

from __future__ import annotations

from xml.etree import ElementTree

from edgepipe.accuracy.measurement import AccuracyReport
from edgepipe.accuracy.per_layer import Comparison, LayerAccuracy
from edgepipe.accuracy.report import to_svg


def comparison(snr_db: float | None) -> Comparison:
    return Comparison(snr_db=snr_db, cosine=0.9, worst=None)


def texts_of(name: str, so_far: float | None, alone: float | None) -> list[str]:
    """Return the texts beside the bars of a chart with one layer: its name, and their values."""
    layer = LayerAccuracy(
        name=name,
        kind="conv2d",
        device="vta",
        stage="vta1",
        so_far=comparison(so_far),
        alone=comparison(alone),
    )
    report = AccuracyReport(
        bundle="tiny.edgepipe",
        network="tiny",
        device="simulator",
        pictures=0,
        layer_pictures=4,
        compared=False,
        figures=(),
        layers=(layer,),
    )
    chart = ElementTree.fromstring(to_svg(report))
    assert chart.attrib["viewBox"] == f"0 0 {chart.attrib['width']} {chart.attrib['height']}"
    titles = [part.text for part in chart.iter() if part.tag.endswith("title")]
    assert [(title or "").partition(", ")[0] for title in titles] == [name, name]
    texts = [part.text or "" for part in chart if part.tag.endswith("text")]
    return texts[texts.index("60") + 1 :]


def test_a_bar_shows_values_inside_the_scale() -> None:
    assert texts_of("stem", 12.5, 59.9) == ["stem"]


def test_values_beyond_the_scale_stand_beside_their_bars() -> None:
    assert texts_of("stem", None, 72.04) == ["stem", "exact", "72.0"]
    assert texts_of("stem", -3.0, 41.0) == ["stem", "-3.0"]


def test_a_long_name_is_shortened_in_its_middle() -> None:
    name = "stage2.0.branch1.0.depthwise_conv_of_an_exporter.fused"
    (shown,) = texts_of(name, 12.5, 12.5)
    assert shown == "stage2.0.branch1.0.…f_an_exporter.fused"
    assert texts_of("x" * 40, 12.5, 12.5) == ["x" * 40]
