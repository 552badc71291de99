"""A frame of a real bundle allocates nothing: ARM and VTA stages, pipelined and serial."""

import subprocess

import pipeline_bundles as bundles
import pytest
from needs import built

pytestmark = pytest.mark.sim


def test_no_frame_of_a_bundle_allocates(tmp_path):
    network = bundles.make_network()
    (frame,) = bundles.frames(1)
    golden = {"frame": frame, "scores": network.run(frame)}
    bundle = bundles.write_bundle(tmp_path / "tiny", bundles.compile_files(network), golden)
    counted = subprocess.run(
        [built("edgepipe-count-allocations"), bundle, "200"], capture_output=True, text=True
    )
    assert counted.returncode == 0, counted.stderr
    assert counted.stdout.split() == ["0", "0"]
