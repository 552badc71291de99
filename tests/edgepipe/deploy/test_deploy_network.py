"""Build a network, deploy it with the real edgepipe-run, and run its golden input on the board."""

import json
import subprocess

import pytest
from needs import lacking
from small_networks import build_small_bundle, with_wrong_golden

from edgepipe.deploy import deployment, payload
from edgepipe.deploy.deployment import DeployOptions
from edgepipe.deploy.session import GoldenError
from edgepipe.errors import DeployError

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return build_small_bundle(tmp_path_factory.mktemp("network"))


@pytest.fixture
def options():
    try:
        payload.find_runtime("x86_64", ())
    except DeployError as error:
        lacking(error)
    return DeployOptions(operator="tester@host", golden_timeout_s=60, allow_simulator=True)


def test_the_golden_run_on_the_board_is_bit_equal_and_the_release_runs(board, bundle, options):
    outcome = deployment.deploy(board.target(), deployment.open_source(bundle), options)
    assert (outcome.result, outcome.release) == ("deployed", 1)
    release = board.root / "current"
    ran = subprocess.run(
        [release / "bin/edgepipe-run", release / "bundle", "--golden", "--frames", "3"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0
    assert len(ran.stdout.splitlines()) == 3
    assert all(json.loads(line) for line in ran.stdout.splitlines())


def test_one_wrong_bit_in_the_golden_output_keeps_the_old_release(board, bundle, options, tmp_path):
    deployment.deploy(board.target(), deployment.open_source(bundle), options)
    altered = with_wrong_golden(bundle, tmp_path / "altered")
    with pytest.raises(GoldenError, match="release 1 is still current") as caught:
        deployment.deploy(board.target(), deployment.open_source(altered), options)
    assert "body" in str(caught.value)
    assert (board.root / "current").readlink().name == "1"
