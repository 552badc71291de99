"""A board's policy, enforced by the real edgepipe-run and ssh-keygen behind a real sshd."""

import dataclasses
import subprocess

import pytest
from needs import lacking
from signing_keys import allow, make_key
from small_networks import build_small_bundle

from edgepipe.bundle import signature, storage
from edgepipe.deploy import deployment, payload
from edgepipe.deploy.deployment import DeployOptions
from edgepipe.errors import DeployError, SignatureError

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return build_small_bundle(tmp_path_factory.mktemp("network"))


@pytest.fixture
def options(tmp_path):
    try:
        payload.find_runtime("x86_64", ())
    except DeployError as error:
        lacking(error)
    return DeployOptions(
        operator="tester@host", golden_timeout_s=60, allow_simulator=True, system=str(tmp_path)
    )


@pytest.fixture
def key(tmp_path):
    return make_key(tmp_path / "key")


@pytest.fixture
def highest(tmp_path):
    return tmp_path / "highest_version"


@pytest.fixture
def require(tmp_path, key, highest):
    """Return a function that gives the board a policy with these lines."""
    allowed = allow(tmp_path, "alice@example.com", key)
    policy = tmp_path / "etc/edgepipe/policy"
    policy.parent.mkdir(parents=True)

    def write(*lines):
        paths = (f"allowed_signers={allowed}", f"highest_version={highest}")
        policy.write_text("\n".join((*lines, *paths)) + "\n")

    return write


@pytest.fixture
def make(network, tmp_path):
    """Return a function that writes the network's bundle with a version, signed or not."""

    def write(version=0, key=None, name="net"):
        manifest, contents = storage.read_all(network)
        path = tmp_path / f"{name}{version}"
        storage.write(
            path,
            {entry.path: contents[entry.path] for entry in manifest.files},
            lambda files: dataclasses.replace(manifest, files=files, version=version),
            (lambda text: signature.make_signature(text, key)) if key else None,
        )
        return path

    return write


def deploy(board, bundle, options):
    return deployment.deploy(board.target(), deployment.open_source(bundle), options)


def refused(board, bundle, options):
    with pytest.raises(SignatureError) as caught:
        deploy(board, bundle, options)
    assert not list((board.root / "releases").glob(".*")), "nothing of it stays on the board"
    return caught.value


def test_a_board_that_requires_signatures_refuses_other_bundles(
    board, make, options, key, require, tmp_path
):
    require("require_signature=yes")
    unsigned = refused(board, make(), options)
    assert str(unsigned) == (
        "board: the bundle is not signed, and this machine requires it; no release is current yet"
    )
    assert unsigned.hint == "sign it with a key that this machine trusts: `edgepipe sign`"
    assert unsigned.exit_code == 15
    other = refused(board, make(0, make_key(tmp_path / "other"), "other"), options)
    assert "signed with ED25519 key SHA256:" in str(other)
    assert "does not allow; no release is current yet" in str(other)
    assert other.exit_code == 16
    signed = make(0, key, "signed")
    altered = tmp_path / "altered"
    storage.replace(
        altered,
        storage.read_all(make(7, None, "altered"))[1]
        | {storage.SIGNATURE: storage.read_signature(signed)},
    )
    error = refused(board, altered, options)
    assert "manifest.json does not match its signature in manifest.sig" in str(error)
    assert error.exit_code == 17
    assert not (board.root / "current").exists()
    assert deploy(board, signed, options).release == 1


def test_a_refused_bundle_leaves_the_current_release(board, make, options, key, require):
    require("require_signature=yes")
    deploy(board, make(0, key), options)
    error = refused(board, make(1, None), options)
    assert str(error).endswith("; release 1 is still current")
    assert (board.root / "current").readlink().name == "1"


def test_versions_only_grow_and_old_releases_cannot_be_replayed(
    board, make, options, key, require, highest
):
    require("require_signature=yes", "versions_only_grow=yes")
    assert deploy(board, make(3, key), options).release == 1
    assert highest.read_text() == "3\n"
    assert deploy(board, make(5, key), options).release == 2
    assert highest.read_text() == "5\n"
    error = refused(board, make(4, key), options)
    assert str(error) == (
        f"board: the bundle's version is 4, this machine accepts 5 and later ones ({highest}); "
        "release 2 is still current"
    )
    assert error.hint == "build and sign the bundle again with a version of at least 5"
    assert error.exit_code == 18
    with pytest.raises(SignatureError, match="the bundle's version is 3") as caught:
        deployment.rollback(board.target(), None, options)
    assert caught.value.exit_code == 18
    assert (board.root / "current").readlink().name == "2"
    assert (board.root / "releases/1").is_dir(), "a refused rollback removes nothing"


def test_the_version_of_a_release_counts_even_if_its_deploy_was_cut(
    board, make, options, key, require, highest
):
    require("require_signature=yes", "versions_only_grow=yes")
    deploy(board, make(5, key), options)
    highest.unlink()  # as if the connection was lost right after the switch
    assert refused(board, make(4, key), options).exit_code == 18
    assert highest.read_text() == "5\n"


def test_a_release_whose_golden_run_fails_raises_no_version(
    board, make, options, key, require, highest, network, tmp_path
):
    require("require_signature=yes", "versions_only_grow=yes")
    deploy(board, make(3, key), options)
    with pytest.raises(DeployError):
        deploy(board, make(9, key), dataclasses.replace(options, after="false"))
    assert highest.read_text() == "3\n"
    assert (board.root / "current").readlink().name == "1"
    assert deploy(board, make(4, key), options).result == "deployed"


def test_without_a_policy_a_board_accepts_every_bundle(board, make, options):
    assert deploy(board, make(), options).release == 1


def test_a_policy_that_cannot_be_parsed_accepts_nothing(board, make, options, key, require):
    require("require_signature=perhaps")
    error = refused(board, make(0, key), options)
    assert "line 1: found 'require_signature=perhaps', expected yes or no" in str(error)
    assert error.hint == "as root, correct the file; the guide to boards describes it"
    assert error.exit_code == 19


def test_a_program_without_support_for_policies_is_not_used(
    board, make_bundle, runtime, require, tmp_path
):
    require("require_signature=yes")
    options = DeployOptions(operator="tester@host", runtimes=(runtime,), system=str(tmp_path))
    with pytest.raises(DeployError) as caught:
        deploy(board, make_bundle(), options)
    assert str(caught.value) == (
        "board: the board cannot apply its policy: exit code 2; no release is current yet"
    )
    assert caught.value.hint == "deploy with the programs of this version of edgepipe"
    assert not list((board.root / "releases").glob(".*"))


def test_the_programs_of_a_release_refuse_too(board, make, options, require, key, tmp_path):
    deploy(board, make(), options)
    require("require_signature=yes")
    release = board.root / "current"
    for arguments in (["--golden"], ["--verify"]):
        ran = subprocess.run(
            [
                *(release / "bin/edgepipe-run", release / "bundle", *arguments),
                *("--policy", tmp_path / "etc/edgepipe/policy"),
            ],
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 15
        assert ran.stdout == ""
        assert ran.stderr == (
            f"edgepipe-run: error: {release}/bundle: the bundle is not signed, and this machine "
            "requires it\n"
            "hint: sign it with a key that this machine trusts: `edgepipe sign`\n"
        )
