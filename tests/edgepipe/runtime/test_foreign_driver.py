"""``--device driver:PATH@REVISION``: a bundle on a library with the functions of vta/driver.h."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess

import pipeline_bundles as bundles
import pytest
from needs import BUILD, built, lacking

from edgepipe.cli import rpc_command
from edgepipe.cli.hints import hint_of
from edgepipe.errors import RpcError
from edgepipe.rpc.session import GoldenReport, StageTime

pytestmark = pytest.mark.sim

(FRAME,) = bundles.frames(1)


def driver(name):
    path = BUILD / "host" / "tests" / f"libedgepipe_test_{name}.so"
    return path if path.is_file() else lacking(f"{path} is missing; `make test` builds it")


def run(bundle, library, *options, revision=None):
    manifest = json.loads((bundle / "manifest.json").read_text())
    named = f"{library}@{revision or manifest['accelerator']['revision']}" if library else ""
    return subprocess.run(
        [built("edgepipe-run"), bundle, "--golden", "--device", f"driver:{named}", *options],
        capture_output=True,
        text=True,
        timeout=120,
        # Such a library knows its accelerator, but its interface does not report it.
        env=os.environ | {"EDGEPIPE_TEST_ACCELERATOR": json.dumps(manifest["accelerator"])},
        check=False,
    )


@pytest.fixture(scope="module", params=["0.0.1", "0.0.2"])
def bundle(request, tmp_path_factory):
    """Return a bundle of an ARM, a VTA and an ARM stage for a revision of the encoding."""
    accelerator = dataclasses.replace(bundles.ACCELERATOR, revision=request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "ACCELERATOR", accelerator)
        network = bundles.make_network()
        golden = {"frame": FRAME, "scores": network.run(FRAME)}
        folder = tmp_path_factory.mktemp("driver") / "tiny"
        return bundles.write_bundle(folder, bundles.compile_files(network), golden)


def test_a_bundle_is_bit_equal_on_a_third_party_driver(bundle):
    ran = run(bundle, driver("simulator_driver"), "--frames", "20")
    assert ran.returncode == 0, ran.stderr
    assert "golden: 20 frames x 1 outputs are bit-equal" in ran.stderr
    assert "VTA stages ran on: driver" in ran.stderr


def test_a_library_that_lacks_functions_is_refused_by_their_names(bundle):
    ran = run(bundle, driver("incomplete_driver"))
    assert ran.returncode == 1
    assert (
        "missing functions: VTAFlushCache, VTAInvalidateCache, VTADeviceRun, expected all "
        "functions of "
        "vta/driver.h" in ran.stderr
    )
    assert "hint: name a library that has the functions of VTA's driver.h\n" in ran.stderr


def test_a_library_that_does_not_exist_is_named(bundle, tmp_path):
    ran = run(bundle, tmp_path / "libvta.so")
    assert ran.returncode == 1
    assert f"driver {tmp_path}/libvta.so: cannot be loaded: " in ran.stderr
    assert "hint: check its path, and that it is built for this machine\n" in ran.stderr


def test_a_bundle_of_another_revision_is_refused(bundle):
    own = json.loads((bundle / "manifest.json").read_text())["accelerator"]["revision"]
    other = "0.0.2" if own == "0.0.1" else "0.0.1"
    ran = run(bundle, driver("simulator_driver"), revision=other)
    assert ran.returncode == 11
    assert f"its encoding revision is {other}, the programs are compiled for {own}" in ran.stderr


def test_a_library_without_its_revision_is_refused(bundle):
    ran = run(bundle, driver("simulator_driver"), revision="unknown")
    assert ran.returncode == 1
    assert "found no encoding revision, expected PATH@0.0.1 or PATH@0.0.2" in ran.stderr
    assert "hint: name the revision of the hardware or simulator" in ran.stderr


def test_a_library_that_does_not_return_obeys_the_device_timeout(bundle, monkeypatch, tmp_path):
    monkeypatch.setenv("EDGEPIPE_TEST_GATE", str(tmp_path / "never"))
    ran = run(bundle, driver("simulator_driver"), "--device-timeout", "0.1")
    assert ran.returncode == 1
    assert "has not returned in time; running the frame again" in ran.stderr
    assert "VTADeviceRun of an earlier run has not returned" in ran.stderr


def test_a_device_without_a_path_is_wrong_use(bundle):
    ran = run(bundle, "")
    assert ran.returncode == 2
    devices = "auto, simulator, timed, uio, model, rtl:LIBRARY or driver:PATH@REVISION"
    assert f"expected {devices}" in ran.stderr


def test_over_rpc_a_golden_run_on_the_bundles_arm_kernels_fails(tmp_path, monkeypatch, capsys):
    network = bundles.make_network()
    files = bundles.compile_files(network) | bundles.compile_fallback(network)
    golden = {"frame": FRAME, "scores": network.run(FRAME)}
    bundle = bundles.write_bundle(tmp_path / "tiny", files, golden)
    accelerator = json.loads((bundle / "manifest.json").read_text())["accelerator"]
    monkeypatch.setenv("EDGEPIPE_TEST_ACCELERATOR", json.dumps(accelerator))
    monkeypatch.setenv("EDGEPIPE_TEST_BROKEN", "1")
    options = argparse.Namespace(
        bundle=bundle,
        device=f"driver:{driver('simulator_driver')}@0.0.1",
        repeat=3,
        json=False,
        host=None,
        tracker=None,
        key=None,
        wait=None,
        server=str(built("edgepipe-rpcd")),
        allow_root=True,
    )
    with pytest.raises(RpcError) as raised:
        rpc_command.run_golden(options)
    assert str(raised.value).startswith(
        "the outputs are right, but stage 'body' did not run on driver without a fault (0 runs "
        "repeated, 4 on its fallback): stage 1 'body' at frame 0: "
    )
    assert hint_of(raised.value, options) == "examine the board"
    shown = capsys.readouterr().out
    assert "golden output bit-equal" in shown
    assert "VTA stages ran on: driver, but 'body' ran 4 times on its ARM fallback\n" in shown
    options.json = True
    with pytest.raises(RpcError, match=r"^the outputs are right, but stage 'body' did not run"):
        rpc_command.run_golden(options)
    assert json.loads(capsys.readouterr().out)["stages"][1]["fallback_runs"] == 4


def test_a_golden_run_on_a_board_with_a_fault_names_the_doctor_and_the_board():
    time = StageTime(
        name="body",
        kind="vta",
        runs=1,
        min_us=1.0,
        median_us=1.0,
        max_us=1.0,
        retries=1,
        fallback_runs=0,
        fault="hangs",
    )
    with pytest.raises(RpcError, match=r"\(1 runs repeated, 0 on its fallback\): hangs") as raised:
        GoldenReport(network="net", device="uio", stages=(time,)).check_device("door-camera")
    assert hint_of(raised.value, None) == "examine the board: edgepipe doctor --host door-camera"
