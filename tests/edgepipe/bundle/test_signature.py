"""Signatures of bundles by the real ssh-keygen: who is accepted, and what each refusal says."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from signing_keys import allow, make_key, start_agent
from tiny_bundle import FILES, manifest

from edgepipe.bundle import signature, storage
from edgepipe.bundle.signature import Refusal
from edgepipe.errors import BundleError, SignatureError


@pytest.fixture
def key(tmp_path):
    return make_key(tmp_path / "key")


@pytest.fixture(params=["net", "net.edgepipe"])
def bundle(request, tmp_path):
    path = tmp_path / request.param
    storage.write(path, FILES, manifest)
    return path


def refused(bundle, allowed):
    with pytest.raises(SignatureError) as caught:
        signature.verify(bundle, allowed)
    return caught.value


def test_a_signed_bundle_is_verified_and_unchanged(bundle, key, tmp_path):
    before = storage.check(bundle)
    signature.sign(bundle, key)
    found, signer = signature.verify(bundle, allow(tmp_path, "alice@example.com", key))
    assert (found, signer) == (before, "alice@example.com")
    assert {e.path: storage.read_file(bundle, e) for e in storage.check(bundle).files} == FILES


def test_signing_again_replaces_the_signature(bundle, key, tmp_path):
    signature.sign(bundle, make_key(tmp_path / "former"))
    signature.sign(bundle, key)
    assert signature.verify(bundle, allow(tmp_path, "alice", key))[1] == "alice"


def test_a_bundle_is_signed_as_it_is_written(tmp_path, key):
    path = tmp_path / "net.edgepipe"
    storage.write(path, FILES, manifest, lambda text: signature.make_signature(text, key))
    assert signature.verify(path, allow(tmp_path, "alice", key))[1] == "alice"


def test_packing_keeps_the_signature(tmp_path, key):
    storage.write(tmp_path / "net", FILES, manifest)
    signature.sign(tmp_path / "net", key)
    packed = storage.pack(tmp_path / "net", tmp_path / "packed.edgepipe")
    assert signature.verify(packed, allow(tmp_path, "alice", key))[1] == "alice"


def test_an_unsigned_bundle_is_refused(bundle, key, tmp_path):
    error = refused(bundle, allow(tmp_path, "alice", key))
    assert str(error) == f"{bundle}: the bundle is not signed"
    assert error.hint == "sign it with `edgepipe sign`"
    assert error.exit_code == Refusal.UNSIGNED == 15


def test_another_signer_is_refused_by_the_keys_fingerprint(bundle, key, tmp_path):
    other = make_key(tmp_path / "other")
    signature.sign(bundle, other)
    allowed = allow(tmp_path, "alice", key)
    error = refused(bundle, allowed)
    print_of = subprocess.run(
        ["ssh-keygen", "-l", "-f", other], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert str(error) == (
        f"{bundle}: signed with ED25519 key {print_of}, which {allowed} does not allow"
    )
    assert error.hint == (
        f"get the bundle from a signer that you trust, or add this one to {allowed}"
    )
    assert error.exit_code == Refusal.OTHER_SIGNER == 16


@pytest.mark.parametrize("options", ['valid-before="20200101"', 'namespaces="git,file"'])
def test_a_signer_who_may_not_sign_bundles_is_refused(bundle, key, tmp_path, options):
    signature.sign(bundle, key)
    error = refused(bundle, allow(tmp_path, "alice", key, options=options))
    assert "does not allow" in str(error)
    assert error.exit_code == Refusal.OTHER_SIGNER


def test_any_principal_of_a_line_may_sign(bundle, key, tmp_path):
    signature.sign(bundle, key)
    allowed = allow(tmp_path, "!mallory@example.com,*@example.com", key)
    assert signature.verify(bundle, allowed)[1] == "*@example.com"


def altered_manifest(bundle):
    """Change the manifest as a forger would, with the right digest."""
    _, contents = storage.read_all(bundle)
    text = contents["manifest.json"].replace(b'"name": "net"', b'"name": "ten"')
    assert text != contents["manifest.json"]
    sealed = {
        "manifest.json": text,
        "manifest.digest": storage.digest(text).encode() + b"\n",
    }
    storage.replace(bundle, contents | sealed)


def test_an_altered_manifest_is_refused(bundle, key, tmp_path):
    signature.sign(bundle, key)
    altered_manifest(bundle)
    storage.check(bundle)  # digests alone do not reveal it
    error = refused(bundle, allow(tmp_path, "alice", key))
    assert str(error) == f"{bundle}: manifest.json does not match its signature in manifest.sig"
    assert error.hint == "get the bundle from its signer again"
    assert error.exit_code == Refusal.ALTERED == 17


def test_an_altered_file_is_refused(tmp_path, key):
    path = tmp_path / "net"
    storage.write(path, FILES, manifest)
    signature.sign(path, key)
    (path / "stages/0_arm/plan.json").write_bytes(b"[]")
    error = refused(path, allow(tmp_path, "alice", key))
    assert str(error) == (
        f"{path}: stages/0_arm/plan.json does not have the digest that the manifest records, "
        "so it is not what alice signed"
    )
    assert error.exit_code == Refusal.ALTERED


def test_an_added_file_is_refused(tmp_path, key):
    path = tmp_path / "net"
    storage.write(path, FILES, manifest)
    signature.sign(path, key)
    (path / "stages/0_arm/kernels.so").write_bytes(b"\x7fELF")
    assert refused(path, allow(tmp_path, "alice", key)).exit_code == Refusal.ALTERED


@pytest.mark.parametrize("content", [b"", b"-----BEGIN SSH SIGNATURE-----\n", bytes(range(256))])
def test_a_text_that_is_not_a_signature_is_refused(tmp_path, key, content):
    path = tmp_path / "net"
    storage.write(path, FILES, manifest)
    (path / "manifest.sig").write_bytes(content)
    assert refused(path, allow(tmp_path, "alice", key)).exit_code == Refusal.ALTERED


def test_a_signature_for_another_purpose_is_refused(tmp_path, key):
    path = tmp_path / "net"
    storage.write(path, FILES, manifest)
    text = (path / "manifest.json").read_bytes()
    git = subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "git"],
        input=text,
        capture_output=True,
        check=True,
    )
    (path / "manifest.sig").write_bytes(git.stdout)
    assert refused(path, allow(tmp_path, "alice", key)).exit_code == Refusal.ALTERED


def test_missing_allowed_signers_are_an_error(bundle, key, tmp_path):
    signature.sign(bundle, key)
    error = refused(bundle, tmp_path / "none")
    assert str(error) == f"{tmp_path}/none: cannot be read (No such file or directory)"
    assert error.hint == "name a file as `ssh-keygen` describes it under ALLOWED SIGNERS"
    assert error.exit_code == Refusal.UNVERIFIABLE == 19


def test_a_machine_without_openssh_says_so(bundle, key, tmp_path, monkeypatch):
    signature.sign(bundle, key)
    allowed = allow(tmp_path, "alice", key)
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refused(bundle, allowed)
    assert str(error) == "ssh-keygen: cannot be started (No such file or directory)"
    assert error.hint == "install the OpenSSH client"
    assert error.exit_code == Refusal.UNVERIFIABLE
    with pytest.raises(SignatureError, match="ssh-keygen: cannot be started"):
        signature.sign(bundle, key)


def test_an_openssh_without_signatures_says_so(bundle, key, tmp_path, monkeypatch):
    signature.sign(bundle, key)
    allowed = allow(tmp_path, "alice", key)
    old = tmp_path / "bin" / "ssh-keygen"
    old.parent.mkdir()
    # What OpenSSH 7.6 answers, which real boards with glibc 2.27 have.
    old.write_text("#!/bin/sh\necho 'unknown option -- Y' >&2\necho 'usage: ...' >&2\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    error = refused(bundle, allowed)
    assert str(error) == "ssh-keygen: cannot verify signatures, found a version before OpenSSH 8.2"
    assert error.hint == "install OpenSSH 8.2 or later"
    assert error.exit_code == Refusal.UNVERIFIABLE


def cannot_sign(bundle, key):
    with pytest.raises(BundleError) as caught:
        signature.sign(bundle, key)
    assert storage.read_signature(bundle) is None
    return str(caught.value), caught.value.hint


def test_a_file_that_is_not_a_key_cannot_sign(bundle, tmp_path):
    hint = "make one with `ssh-keygen -t ed25519`, and name its private part"
    text, found = cannot_sign(bundle, tmp_path / "none")
    assert text.startswith(f"{tmp_path}/none: not an OpenSSH key (")
    assert text.endswith("No such file or directory)")
    assert found == hint
    (tmp_path / "text").write_text("hello\n")
    text, found = cannot_sign(bundle, tmp_path / "text")
    assert text == f"{tmp_path}/text: not an OpenSSH key ({tmp_path}/text is not a public key file)"
    assert found == hint


def test_a_key_with_a_passphrase_needs_a_terminal_or_an_agent(bundle, tmp_path, monkeypatch):
    # Another session than this test's has no terminal.
    key = make_key(tmp_path / "key", passphrase="secret")
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")
    monkeypatch.setenv("DISPLAY", ":0")
    text, hint = cannot_sign(bundle, key)
    assert text == (
        f'{key}: cannot sign (Load key "{key}": incorrect passphrase supplied to decrypt private '
        "key)"
    )
    assert hint == (
        "run this in a terminal, or add the key to an agent with `ssh-add` and name its public "
        "part (.pub)"
    )


def test_the_public_part_signs_through_an_agent_only(bundle, key, tmp_path, monkeypatch):
    public = tmp_path / "public" / "key.pub"
    public.parent.mkdir()
    public.write_bytes(Path(f"{key}.pub").read_bytes())
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    text, hint = cannot_sign(bundle, public)
    assert text == f'{public}: cannot sign (No private key found for public key "{public}")'
    assert (
        hint == "add the private part to an agent with `ssh-add`; only its owner may read its file"
    )
    with start_agent(tmp_path, key) as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        signature.sign(bundle, public)
    assert signature.verify(bundle, allow(tmp_path, "alice", key))[1] == "alice"


def test_a_key_that_openssh_cannot_use_says_why(bundle, key, tmp_path, monkeypatch):
    # A key on a security key that is not plugged in.
    broken = tmp_path / "bin" / "ssh-keygen"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\n[ \"$1\" = -l ] || { echo 'device not found.' >&2; exit 255; }\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    text, hint = cannot_sign(bundle, key)
    assert text == f"{key}: cannot sign (device not found)"
    assert hint == "`ssh-keygen -Y sign` must work with this key"


def test_a_damaged_bundle_is_not_signed(tmp_path, key):
    path = tmp_path / "net"
    storage.write(path, FILES, manifest)
    (path / "golden/frame.bin").write_bytes(b"?")
    with pytest.raises(BundleError, match=r"golden/frame\.bin has 1 bytes"):
        signature.sign(path, key)
    assert not (path / "manifest.sig").exists()


def test_an_archive_with_two_signatures_is_verified_by_the_one_that_is_read(tmp_path, key):
    path = tmp_path / "net.edgepipe"
    storage.write(path, FILES, manifest)
    signature.sign(path, key)
    with tarfile.open(path, "a") as archive:
        info = tarfile.TarInfo("manifest.sig")
        archive.addfile(info, io.BytesIO(b""))
    assert refused(path, allow(tmp_path, "alice", key)).exit_code == Refusal.ALTERED
