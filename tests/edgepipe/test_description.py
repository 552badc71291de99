"""The descriptions of the shipped examples."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from edgepipe import description

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("where", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_an_example_names_its_classes(where: Path) -> None:
    described = description.load(where)
    labels = description.labels_of(described, where)
    graph = onnx.load(where.with_suffix(".onnx")).graph
    outputs = {output.name.removesuffix(":0"): output for output in graph.output}
    scores = outputs[next(iter(described.postprocess.scores), next(iter(outputs)))]
    assert len(labels) == scores.type.tensor_type.shape.dim[-1].dim_value
    assert all(label.strip() == label != "" for label in labels)
