"""The pages on file formats list exactly the keys that the code reads and writes."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from needs import lacking

from edgepipe import boards, description, placement_file
from edgepipe.bundle import manifest, network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.partition.measured import cost_file
from edgepipe.partition.rules import rule, rule_file
from edgepipe.quantize import scheme_file
from vta_stages.accelerator import Accelerator
from vta_stages.timing.cost_model import CostModel

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference"


def table(page: str, heading: str) -> list[str]:
    """Return the keys of the tables below a heading: the names in their first columns."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    (section,) = re.findall(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", text, re.M | re.S)
    cells = re.findall(r"^\| (`.*?) \|", section, re.M)
    return [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]


@pytest.mark.parametrize(
    ("page", "heading", "record"),
    [
        ("board-file.md", "Board files", boards.Board),
        ("board-file.md", "accelerator", Accelerator),
        ("board-file.md", "timing", CostModel),
        ("board-file.md", "arm_timing", boards.ArmTiming),
        ("board-file.md", "threads.arm and threads.vta", boards.StageThreads),
        ("bundle.md", "manifest.json", manifest.Manifest),
        ("bundle.md", "tensors", manifest.Tensor),
        ("bundle.md", "stages", manifest.Stage),
        ("bundle.md", "placement", manifest.Placement),
        ("bundle.md", "fingerprint", manifest.Fingerprint),
        ("bundle.md", "network.json", network.NetworkRecord),
        ("bundle.md", "operators", network.OperatorRecord),
        ("scheme.md", "Scheme files", scheme_file.File),
        ("scheme.md", "layers", scheme_file.LayerKeys),
        ("scheme.md", "tensors", scheme_file.Tensor),
        ("placement-rules.md", "Rule files", rule_file.File),
        ("placement-file.md", "Keys", placement_file.File),
        ("cost-file.md", "Keys", cost_file.Head),
        ("cost-file.md", "Ranges", cost_file.Entry),
        ("description.md", "preprocess", Preprocess),
        ("description.md", "postprocess", description.Postprocess),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_table_lists_the_keys_of_its_record(page: str, heading: str, record: Any) -> None:
    assert sorted(table(page, heading)) == sorted(f.name for f in dataclasses.fields(record))


def test_the_keys_of_placement_rules_and_their_facts_are_explained() -> None:
    keys = {f.name for f in dataclasses.fields(rule_file.RuleKeys)}
    assert set(table("placement-rules.md", "rules")) == {*keys, "pattern", "when"}
    text = (REFERENCE / "placement-rules.md").read_text(encoding="utf-8")
    assert [kind for kind in rule.KINDS if f"`{kind}`" not in text] == []
    facts = table("placement-rules.md", "Facts")
    assert set(facts) - {"within", "int8", "float32"} == {*rule.FACTS}


def test_a_boards_defaults_are_those_of_the_code() -> None:
    text = (REFERENCE / "board-file.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (`?[\d\".\[\]]+`?) \|", text, re.M)
    written = {
        (key, default.strip('`"').removesuffix(".0"))
        for keys, default in rows
        for key in re.findall(r"`(\w+)`", keys)
    }
    records = (Accelerator, CostModel, boards.ArmTiming)
    known = {
        (f.name, json.dumps(f.default).strip('"').removesuffix(".0"))
        for record in records
        for f in dataclasses.fields(record)
    }
    assert known <= written


def test_statistics_are_explained_key_by_key(tmp_path: Path) -> None:
    source = REFERENCE.parents[1] / "cpp_runtime/src/pipeline/pipeline_statistics.cc"
    if not source.is_file():
        lacking(f"{source} is missing")
    written = set(re.findall(r"\{\"(\w+)\", ", source.read_text(encoding="utf-8")))
    page = "statistics-json.md"
    explained = {
        key for heading in ("The pipeline", "A stage", "Durations") for key in table(page, heading)
    }
    assert explained == written


def test_the_manifests_format_is_the_one_on_its_page() -> None:
    text = (REFERENCE / "bundle.md").read_text(encoding="utf-8")
    assert f"| `format` | {manifest.FORMAT}. " in text
