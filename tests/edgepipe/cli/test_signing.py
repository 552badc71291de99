"""``edgepipe build --sign``, ``sign`` and ``verify``: exit codes and texts."""

import shutil

import pytest
from command_line import run, run_program
from signing_keys import allow, make_key

import edgepipe
from edgepipe.bundle import storage
from edgepipe.errors import BundleError


@pytest.fixture
def key(tmp_path):
    return make_key(tmp_path / "key")


@pytest.fixture
def bundle(built, tmp_path):
    return shutil.copy(built, tmp_path / "net.edgepipe")


def verify(bundle, allowed):
    return run("verify", bundle, "--allowed-signers", allowed)


def test_build_signs_what_verify_accepts(project, key, capsys):
    out = project / "net.edgepipe"
    arguments = ["build", project / "net.onnx", "--board", "host", "--calib", project / "pictures"]
    assert run(*arguments, "-o", out, "--sign", key, "--bundle-version", 7) == 0
    capsys.readouterr()
    assert verify(out, allow(project, "alice@example.com", key)) == 0
    assert capsys.readouterr().out == f"{out}: net, version 7, signed by alice@example.com\n"
    assert storage.check(out).version == 7


def test_a_build_with_a_bad_key_ends_before_it_begins(project, capsys):
    arguments = ["build", project / "net.onnx", "--board", "host", "--calib", project / "pictures"]
    assert run(*arguments, "-o", project / "out", "--sign", project / "net.toml") == 1
    said = capsys.readouterr().err
    assert f"error: {project}/net.toml: not an OpenSSH key (" in said
    assert said.endswith("hint: make one with `ssh-keygen -t ed25519`, and name its private part\n")
    assert "reading the network" not in said
    assert not (project / "out").exists()


@pytest.mark.parametrize("version", [-1, 2**31])
def test_a_version_is_a_number_from_1_up(tmp_path, version):
    with pytest.raises(BundleError) as caught:
        edgepipe.build(
            "net.onnx", board="host", calibration=".", output=tmp_path / "out", version=version
        )
    assert str(caught.value) == f"version {version}: expected 0 (none) to 2147483647"
    assert caught.value.hint == "give every release a higher version than the one before"


def test_sign_and_verify(bundle, key, tmp_path, capsys):
    assert run("sign", bundle, "--key", key) == 0
    assert capsys.readouterr().out == (
        f"{bundle}: signed net, no version\nthe signature is in manifest.sig\n"
    )
    assert verify(bundle, allow(tmp_path, "alice", key)) == 0
    assert capsys.readouterr().out == f"{bundle}: net, no version, signed by alice\n"
    assert run("inspect", bundle) == 0


def test_each_refusal_has_its_own_exit_code(bundle, key, tmp_path, capsys):
    allowed = allow(tmp_path, "alice", key)
    assert verify(bundle, allowed) == 15
    assert capsys.readouterr().err == (
        f"edgepipe: error: {bundle}: the bundle is not signed\nhint: sign it with `edgepipe sign`\n"
    )
    assert run("sign", bundle, "--key", make_key(tmp_path / "other")) == 0
    assert verify(bundle, allowed) == 16
    assert "hint: get the bundle from a signer that you trust, or add this one to " in (
        capsys.readouterr().err
    )
    assert run("sign", bundle, "--key", key) == 0
    content = bundle.read_bytes()
    bundle.write_bytes(content.replace(b'"name": "net"', b'"name": "ten"'))
    assert verify(bundle, allowed) == 17
    assert capsys.readouterr().err == (
        f"edgepipe: error: {bundle}: manifest.json does not match its signature in manifest.sig\n"
        "hint: get the bundle from its signer again\n"
    )
    assert verify(bundle, tmp_path / "nobody") == 19
    assert capsys.readouterr().err == (
        f"edgepipe: error: {tmp_path}/nobody: cannot be read (No such file or directory)\n"
        "hint: name a file as `ssh-keygen` describes it under ALLOWED SIGNERS: "
        "--allowed-signers FILE\n"
    )


def test_no_bundle_and_wrong_use_are_other_codes(key, tmp_path):
    assert verify(tmp_path / "none", allow(tmp_path, "alice", key)) == 1
    assert run_program("verify", tmp_path / "none").returncode == 2
