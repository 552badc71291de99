"""The page of networks shows the rows of the benchmark."""

from __future__ import annotations

import dataclasses
import json
import tomllib

from bench.network_cases import cases
from bench.network_page import KEPT, PAGE, page, with_figures
from edgepipe.zoo import catalogue

ROW = {
    "network": "net 320x48",
    "weights": "",
    "stages": 3,
    "hops": 2,
    "vta_percent": 99,
    "cores_percent": 8,
    "memory_mebibytes": 12,
    "frames_per_second": 81.5,
    "latency_ms": 4.1,
    "stages_on_vta": 0,
    "frames_per_second_on_vta": 0,
    "compares": "logits",
    "pictures": 20,
    "cosine": 0.99876,
    "snr_db": 25.1,
    "date": "2026-11-24",
}


def test_the_page_shows_the_rows_that_are_kept() -> None:
    rows = json.loads(KEPT.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(list(rows.values()))
    known = cases()
    titles = {name: row["network"] for name, row in rows.items()}
    assert titles == {name: known[name].title for name in rows}


def test_every_network_of_the_zoo_is_measured_and_has_the_figures_of_its_row() -> None:
    rows = json.loads(KEPT.read_text(encoding="utf-8"))
    measured = {case.zoo: case for case in cases().values() if case.weights}
    assert measured.keys() == catalogue.models().keys()
    for name, model in catalogue.models().items():
        row = rows[measured[name].name]
        assert dataclasses.asdict(model.figures).items() <= row.items()


def test_new_rows_replace_the_figures_of_the_zoo() -> None:
    text = catalogue.FILE.read_text(encoding="utf-8")
    rows = json.loads(KEPT.read_text(encoding="utf-8"))
    assert with_figures(text, rows) == text
    changed = with_figures(text, {"YOLOX": rows["YOLOX"] | {"stages": 7, "cosine": 0.5}})
    models = tomllib.loads(changed)["models"]
    assert (models["yolox"]["figures"]["stages"], models["yolox"]["figures"]["cosine"]) == (7, 0.5)
    assert models["pp_lcnet"] == tomllib.loads(text)["models"]["pp_lcnet"]


def test_real_and_made_up_weights_are_apart() -> None:
    written = page(
        [
            ROW | {"stages_on_vta": 3, "frames_per_second_on_vta": 90.0},
            ROW | {"network": "other 32", "weights": "package"},
        ]
    )
    real, made_up = written.split("## Made-up weights")
    assert (
        "| other 32 | 3 | 2 | 99 % | 8 % | 12 | 81.5 | 4.1 | package | logits, 20 pictures | "
        "0.9988 | 25.1 dB | 2026-11-24 |"
    ) in real
    assert (
        "| net 320x48 | 3 | 2 | 99 % | 8 % | 12 | 81.5 | 4.1 | 3: 90.0 | 0.9988 | 25.1 dB | "
        "2026-11-24 |"
    ) in made_up
    assert "(2026-11-24)" in written
