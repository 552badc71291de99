"""/metrics of edgepipe-cam, as Prometheus's own parser reads it, and what is written about it."""

import json
import re
import time
import urllib.request
from pathlib import Path

import cam_programs as cam
import needs
import pytest
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs/guides/monitoring.md"
DASHBOARD = ROOT / "examples/grafana/edgepipe.json"
TOKEN = "f3a90c5d12b74e86"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return cam.make_bundle(tmp_path_factory.mktemp("bundle"))


def families(url, token=""):
    """Return the families at ``url`` by name, and the answer's content type."""
    request = urllib.request.Request(f"{url}metrics")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        text, content_type = answer.read().decode(), answer.headers["Content-Type"]
    return {family.name: family for family in text_string_to_metric_families(text)}, content_type


@pytest.fixture(scope="module")
def running(bundle, tmp_path_factory):
    """Return the families of a program after some frames, and some time later."""
    needs.installed("ffmpeg", "ffmpeg")
    options = ["--source", "synthetic", "--rate", "100"]
    options += ["--stream", str(tmp_path_factory.mktemp("live")), "--stream-size", "64x48"]
    with cam.serving(bundle, options) as (url, _):
        end = time.monotonic() + 60
        found, content_type = families(url)
        while value(found, "edgepipe_frames_delivered") < 20 and time.monotonic() < end:
            found, content_type = families(url)
        time.sleep(0.1)
        later, _ = families(url)
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    return found, later


def value(found, name, suffix="", **labels):
    """Return the only sample of a family with these labels; the parser drops a name's _total."""
    family = found[name]
    end = suffix or ("_total" if family.type == "counter" else "")
    values = [
        sample.value
        for sample in family.samples
        if sample.name == name + end and labels.items() <= sample.labels.items()
    ]
    assert len(values) == 1, (name, labels)
    return values[0]


def test_frames_are_accounted_for(running):
    for found in running:
        frames = {
            kind: value(found, f"edgepipe_frames_{kind}")
            for kind in ("submitted", "delivered", "dropped", "failed", "in_flight")
        }
        assert frames.pop("submitted") == sum(frames.values())
        assert value(found, "edgepipe_source_captured") >= frames["delivered"] >= 20


def test_the_streams_figures_are_there(running):
    before, after = running
    assert value(after, "edgepipe_stream_sent") >= value(before, "edgepipe_stream_sent")
    for kind in ("dropped", "reconnects"):
        assert value(after, f"edgepipe_stream_{kind}") >= 0
    assert value(after, "edgepipe_stream_outage_seconds") == 0


def test_counters_only_grow(running):
    before, after = running
    for name, family in before.items():
        if family.type == "counter":
            for sample in family.samples:
                assert value(after, name, **sample.labels) >= sample.value, sample


def test_latencies_are_a_cumulative_histogram(running):
    for found in running:
        samples = found["edgepipe_frame_latency_seconds"].samples
        counts = [sample.value for sample in samples if sample.name.endswith("_bucket")]
        bounds = [float(s.labels["le"]) for s in samples if s.name.endswith("_bucket")]
        assert (counts, bounds) == (sorted(counts), sorted(bounds))
        count = value(found, "edgepipe_frame_latency_seconds", "_count")
        assert counts[-1] == count >= 20
        assert value(found, "edgepipe_frame_latency_seconds", "_sum") > 0


def test_every_stage_has_its_figures(running):
    found, _ = running
    stages = {sample.labels["stage"] for sample in found["edgepipe_stage_runs"].samples}
    assert len(stages) == 3
    for stage in stages:
        assert value(found, "edgepipe_stage_runs", stage=stage) >= 20
        assert value(found, "edgepipe_stage_busy_seconds", stage=stage) > 0
        assert value(found, "edgepipe_stage_hangs", stage=stage) == 0


def test_what_runs_is_a_label_and_the_process_has_its_usual_names(running):
    found, _ = running
    labels = found["edgepipe_info"].samples[0].labels
    assert (labels["network"], labels["device"]) == ("tiny", "simulator")
    assert value(found, "process_resident_memory_bytes") > 1 << 20
    assert value(found, "process_cpu_seconds") > 0


def test_the_pages_password_protects_them(bundle, tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    options = ["--source", "synthetic", "--http-token-file", str(path)]
    with cam.serving(bundle, options) as (url, _):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            families(url)
        assert "edgepipe_info" in families(url, TOKEN)[0]


def names(found):
    """Return the names that samples of these families have."""
    return {sample.name for family in found.values() for sample in family.samples}


def test_the_guide_lists_exactly_what_there_is(running):
    rows = re.findall(r"^\| `((?:edgepipe|process)_\w+)", GUIDE.read_text(encoding="utf-8"), re.M)
    made = {re.sub(r"_seconds_(bucket|sum|count)$", "_seconds", n) for n in names(running[0])}
    optional = {"edgepipe_temperature_celsius"}  # where the kernel shows some
    assert set(rows) - optional == made - optional
    assert optional <= set(rows)


def test_the_dashboard_asks_for_what_there_is(running):
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = set(re.findall(r"(?:edgepipe|process)_\w+", " ".join(asked)))
    assert used <= names(running[0]) | {"edgepipe_temperature_celsius"}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
