"""Bundles on the board's driver with a model of the FPGA and injected faults."""

from __future__ import annotations

import json
import resource
import subprocess
from pathlib import Path

import numpy as np
import pipeline_bundles as bundles
import pytest
from needs import built, installed

import edgepipe
from edgepipe.errors import RuntimeFailure
from edgepipe.pipeline import PipelineConfig
from edgepipe.runtime.pipeline import Pinning

pytestmark = pytest.mark.sim

FRAME = bundles.frames(1)[0]
TIME_LIMIT = ("--device-timeout", "1")  # a busy machine may delay runs that do not hang


@pytest.fixture(scope="module")
def plain(tmp_path_factory, network, files):
    """Return a bundle without a fallback."""
    path = tmp_path_factory.mktemp("faults") / "plain"
    return bundles.write_bundle(path, files, {"frame": FRAME, "scores": network.run(FRAME)})


@pytest.fixture(scope="module")
def with_fallback(tmp_path_factory, network, files):
    files = files | bundles.compile_fallback(network)
    path = tmp_path_factory.mktemp("faults") / "with_fallback"
    return bundles.write_bundle(path, files, {"frame": FRAME, "scores": network.run(FRAME)})


def run(bundle: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(built("edgepipe-run")), str(bundle), "--golden", "--json", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def body_of(ran: subprocess.CompletedProcess[str], *, faulty: bool = False) -> dict[str, object]:
    """Return the statistics of the VTA stage, once all frames were bit-equal.

    If its device was ``faulty``, the golden run still fails.
    """
    assert ran.returncode == int(faulty), ran.stderr
    assert "are bit-equal" in ran.stderr
    stages = json.loads(ran.stdout.splitlines()[-1])["statistics"]["stages"]
    return next(stage for stage in stages if stage["name"] == "body")


def test_a_bundle_is_bit_equal_on_memory_without_cache_coherence(plain):
    ran = run(plain, "--frames", "20", "--device", "model")
    assert body_of(ran)["fault"] == ""
    assert "VTA stages ran on: model" in ran.stderr


def test_hangs_are_reported_and_their_frames_run_again(plain):
    ran = run(plain, "--frames", "12", "--device", "model", "--fault", "hang=5", *TIME_LIMIT)
    assert body_of(ran, faulty=True)["retries"] == 2
    told = [line for line in ran.stderr.splitlines() if line.startswith("edgepipe-run: stage")]
    assert len(told) == 2
    assert told[0].startswith("edgepipe-run: stage 1 'body' at frame 4: stage body: vta: hangs")
    assert "fetch control 0x" in told[0]
    assert told[0].endswith("the accelerator has been reset; running the frame again")
    assert "body: 2 frames run again, 0 on its fallback" in ran.stderr
    assert "12 submitted = 12 delivered + 0 dropped + 0 failed" in ran.stderr
    assert (
        "edgepipe-run: error: the outputs are right, but stage 'body' did not run on model without "
        "a fault (2 frames run again, 0 on its fallback): stage 1 'body' at frame 8: " in ran.stderr
    )
    assert "hint: examine the board with `edgepipe doctor`" in ran.stderr


def test_stale_done_flags_and_lost_interrupts_change_no_bit(plain):
    faults = ("--fault", "stale-done=2", "--fault", "lost-interrupt=3")
    assert body_of(run(plain, "--frames", "12", "--device", "model", *faults))["retries"] == 0


def test_an_accelerator_that_always_hangs_is_replaced_by_the_bundles_arm_kernels(with_fallback):
    ran = run(with_fallback, "--frames", "8", "--device", "model", "--fault", "hang=1", *TIME_LIMIT)
    assert body_of(ran, faulty=True)["fallback_frames"] == 8
    assert "its fallback takes over" in ran.stderr
    assert (
        "VTA stages ran on: model, but 'body' ran 8 of 8 frames on its ARM fallback" in ran.stderr
    )


def test_without_arm_kernels_the_run_ends_with_stage_and_frame_and_an_account(plain):
    ran = run(plain, "--frames", "8", "--device", "model", "--fault", "hang=1", *TIME_LIMIT)
    assert ran.returncode == 1
    assert "edgepipe-run: stage 1 'body' at frame 0: stage body: vta: hangs" in ran.stderr
    assert " 0 delivered + " in ran.stderr
    assert " + 1 failed;" in ran.stderr


def test_a_bundle_with_a_fallback_runs_like_any_other(with_fallback):
    assert body_of(run(with_fallback, "--frames", "3"))["fallback_frames"] == 0


@pytest.mark.parametrize("device", ["simulator:0+1", "simulator:1", "model:0+1"])
def test_devices_of_a_kind_are_chosen_by_index(plain, device):
    assert body_of(run(plain, "--frames", "4", "--device", device))["fault"] == ""


def test_the_camera_program_recovers_and_counts_in_the_same_way(with_fallback):
    options = ["--source", "synthetic", "--rate", "1000", "--frames", "10", "--headless"]
    faults = ["--device", "model", "--fault", "hang=4", "--device-hangs", "9/20", *TIME_LIMIT]
    ran = subprocess.run(
        [str(built("edgepipe-cam")), str(with_fallback), *options, *faults],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 10
    assert "edgepipe-cam: stage 1 'body' at frame 3: stage body: vta: hangs" in ran.stderr
    assert "frames run again, 0 on its fallback" in ran.stderr
    assert "10 submitted = 10 delivered + 0 dropped + 0 failed" in ran.stderr
    assert "VTA stages ran on: model\n" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--device", "gpu"), "--device: found 'gpu', expected auto, simulator, timed, uio, model"),
        (("--device", "uio:"), "--device: found 'uio:', expected auto"),
        (("--device", "uio:0+0"), "--device: found 'uio:0+0', expected auto"),
        (("--device", "simulater"), "other processes use, too; did you mean simulator?"),
        (("--device", "uoi:1"), "other processes use, too; did you mean uio?"),
        (("--fault", "hagn=1"), "lost-interrupt=N or wrong-bit=N; did you mean hang?"),
        (("--priority", "100"), "--priority: found '100', expected 0 to 99"),
        (("--device-timeout", "0"), "--device-timeout: found '0', expected seconds"),
        (("--device-hangs", "21/20"), "--device-hangs: found '21/20', expected e.g. 3/20"),
        (("--device-hangs", "3"), "--device-hangs: found '3', expected e.g. 3/20"),
        (("--device-trial", "-1"), "--device-trial: found '-1', expected 0 to 1000000"),
        (("--fault", "fire=1"), "--fault: found 'fire=1', expected hang=N"),
        (("--fault", "hang=1"), "--fault goes with --device model"),
    ],
)
def test_wrong_use_says_what_is_expected(plain, arguments, text):
    ran = run(plain, *arguments)
    assert ran.returncode == 2
    assert text in ran.stderr


@pytest.mark.parametrize("program", ["edgepipe-run", "edgepipe-cam"])
def test_a_realtime_priority_beyond_the_limit_is_an_error_that_names_it(plain, program):
    frames = ["--golden"] if program == "edgepipe-run" else ["--source", "synthetic", "--headless"]
    command = [str(built(program)), str(plain), *frames, "--no-pin", "--priority", "7"]
    # In a user namespace, without root's capability, the limit applies.
    ran = subprocess.run(
        [installed("unshare", "util-linux"), "--user", *command],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert "at realtime priority 7 is not allowed, the rtprio limit of this process is 0" in (
        ran.stderr
    )
    assert (
        "hint: raise it: ulimit -r, LimitRTPRIO= of a unit, rtprio in limits.conf. "
        "A unit also needs RestrictRealtime=no\n"
    ) in ran.stderr


def test_a_flaky_accelerator_is_abandoned_and_used_again(with_fallback):
    faults = ("--device", "model", "--fault", "hang=6", *TIME_LIMIT)
    ran = run(with_fallback, "--frames", "40", *faults, "--device-trial", "2")
    body = body_of(ran, faulty=True)
    assert body["hangs"] >= 3
    assert 0 < body["fallback_frames"] < 30
    assert "3 of the last 20 runs hung; its fallback takes over" in ran.stderr
    assert "the device passed 3 trials; it is used again" in ran.stderr


def test_without_arm_kernels_too_many_hangs_end_the_run_with_that_cause(plain):
    faults = ("--device", "model", "--fault", "hang=4", *TIME_LIMIT)
    ran = run(plain, "--frames", "40", *faults, "--device-hangs", "2/10")
    assert ran.returncode == 1
    assert "; 2 of the last 10 runs hung" in ran.stderr


def test_python_abandons_a_flaky_accelerator_too(with_fallback):
    with pytest.raises(RuntimeFailure, match=r"device_hangs: found \[4,3\], expected hangs and"):
        edgepipe.load(with_fallback, device_hangs=(4, 3))
    with pytest.raises(
        RuntimeFailure, match=r"device_timeout_s: found 0\.0, expected seconds from"
    ):
        edgepipe.load(with_fallback, device_timeout_s=0.0)
    options = {"device_timeout_s": 30.0, "device_hangs": (1, 1), "device_trial": 0}
    with edgepipe.load(with_fallback, device="model", **options) as pipeline:
        pipeline(FRAME[0])
        assert [stage.hangs for stage in pipeline.statistics().stages] == [0, 0, 0]


def test_an_exported_pipeline_takes_the_same_options(with_fallback, tmp_path):
    exported = PipelineConfig.from_bundle(with_fallback).build().export(tmp_path / "exported")
    for wrong, text in (
        ({"device_timeout_s": 0.0}, r"device_timeout_s: found 0\.0, expected seconds from"),
        ({"device_hangs": (4, 3)}, r"device_hangs: found \[4,3\], expected hangs and"),
        ({"device_trial": -1}, "device_trial: found -1, expected 0 to"),
    ):
        with pytest.raises(RuntimeFailure, match=text):
            edgepipe.load(exported, **wrong)
    options = {"device_timeout_s": 30.0, "device_hangs": (1, 1), "device_trial": 0}
    with edgepipe.load(exported, device="model", pinning=Pinning.OFF, **options) as pipeline:
        pipeline.run(frame=FRAME)
        assert pipeline.next(timeout_s=60).frame == 0


@pytest.mark.parametrize("device", ["simulator", "timed", "model"])
def test_a_modified_program_is_refused_by_every_device_and_not_replaced(device, files, tmp_path):
    """The STORE of the program goes to an absolute address, and all digests are right."""
    network = bundles.make_network()
    modified = files | bundles.compile_fallback(network)
    (insns,) = (name for name in modified if name.endswith("insns.bin"))
    relocations = insns.replace("insns.bin", "relocs.bin")
    words = np.frombuffer(modified[insns], np.uint64).reshape(-1, 2)
    store = next(n for n, word in enumerate(words[:, 0]) if word & 7 == 1)
    modified[relocations] = bytes(
        255 if n == store else region for n, region in enumerate(modified[relocations])
    )
    golden = {"frame": FRAME, "scores": network.run(FRAME)}
    ran = run(bundles.write_bundle(tmp_path / "net", modified, golden), "--device", device)
    assert ran.returncode == 1
    assert f"stage body: instruction {store} " in ran.stderr
    assert "device address 0x" in ran.stderr or "device memory [0x" in ran.stderr
    assert "hint: the program breaks a rule of the accelerator: build it again" in ran.stderr


def test_an_accelerator_that_does_not_exist_is_an_error(plain):
    ran = run(plain, "--device", "uio:1")
    assert ran.returncode == 1
    assert "udmabuf1" in ran.stderr
