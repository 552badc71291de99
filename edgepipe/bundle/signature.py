"""Signatures of bundles: ``manifest.sig``, an OpenSSH signature of ``manifest.json``.

The manifest contains the SHA-256 digest of every other file, the bundle's name and its version, so
one signature covers all of them. OpenSSH's ``ssh-keygen`` signs and verifies (``-Y sign|verify``,
OpenSSH 8.2 or later). Every machine that deploys, and every board that can be deployed to, has it;
keys may have passphrases, be in an agent or on a security key, or be certified by an authority.
"""

from __future__ import annotations

import enum
import re
import subprocess
from pathlib import Path

from edgepipe import scratch
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Manifest
from edgepipe.errors import BundleError, SignatureError

NAMESPACE = "edgepipe-bundle"
"""Prevents a signature made for another purpose from counting as that of a bundle."""

_TOOL = "ssh-keygen"


class Refusal(enum.IntEnum):
    """Why a bundle's signature is refused: the exit codes, here and of the programs on a board."""

    UNSIGNED = 15
    OTHER_SIGNER = 16
    ALTERED = 17
    OLDER_RELEASE = 18
    UNVERIFIABLE = 19


def check_key(key: Path) -> None:
    """Raise ``BundleError`` if ``key`` is not an OpenSSH key, without asking for its passphrase.

    Raises ``SignatureError`` if OpenSSH is not installed.
    """
    found = _run("-l", "-f", str(key))
    if found.returncode != 0:
        raise BundleError(
            f"{key}: not an OpenSSH key ({_reason(found)})",
            hint="make one with `ssh-keygen -t ed25519`, and name its private part",
            option="key",
            value="KEY",
        )


def make_signature(manifest_text: bytes, key: Path) -> bytes:
    """Return the signature of ``manifest_text`` by the key in the file ``key``.

    ``key`` is a private key, or the public part of one in an agent. For a passphrase, OpenSSH asks
    on the terminal. Raises ``BundleError`` if ``key`` cannot sign.
    """
    check_key(key)
    done = _run("-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, content=manifest_text)
    if done.returncode == 0:
        return done.stdout
    reason = _reason(done)
    if "passphrase" in reason:
        hint = (
            "run this in a terminal, or add the key to an agent with `ssh-add` and name its public "
            "part (.pub)"
        )
    elif "No private key" in reason:
        hint = "add the private part to an agent with `ssh-add`; only its owner may read its file"
    else:
        hint = "`ssh-keygen -Y sign` must work with this key"
    raise BundleError(f"{key}: cannot sign ({reason})", hint=hint)


def sign(path: Path, key: Path) -> Manifest:
    """Check the bundle at ``path`` and sign it with ``key``, replacing an older signature.

    The bundle stays complete at every moment. Raises ``BundleError`` if it is damaged, cannot be
    written, or ``key`` cannot sign.
    """
    manifest, contents = storage.read_all(path)
    signature = make_signature(contents[storage.MANIFEST], key)
    storage.replace(path, contents | {storage.SIGNATURE: signature})
    return manifest


def verify(path: Path, allowed_signers: Path) -> tuple[Manifest, str]:
    """Return the bundle's manifest and the name of its signer, one of ``allowed_signers``.

    ``allowed_signers`` is a file as ``ssh-keygen(1)`` describes it under ALLOWED SIGNERS. Raises
    ``SignatureError``, whose ``exit_code`` is a ``Refusal``: the bundle is not signed, its signer
    is not allowed, its manifest is not the one that was signed or a file is not the one in the
    manifest, or nothing can be verified on this machine.
    """
    text = storage.read_member(path, storage.MANIFEST)
    signature = storage.read_signature(path)
    if signature is None:
        raise SignatureError(
            f"{path}: the bundle is not signed",
            hint="sign it with `edgepipe sign`",
            exit_code=Refusal.UNSIGNED,
        )
    with scratch.folder("signature") as folder:
        file = folder / storage.SIGNATURE
        file.write_bytes(signature)
        signer = _verified(path, text, file, allowed_signers)
    try:
        manifest, contents = storage.read_all(path)
    except BundleError as damage:
        raise SignatureError(
            f"{damage}, so it is not what {signer} signed",
            hint="get the bundle from its signer again",
            exit_code=Refusal.ALTERED,
        ) from damage
    if contents[storage.MANIFEST] != text:
        raise _altered(path)
    return manifest, signer


def _verified(path: Path, text: bytes, signature: Path, allowed_signers: Path) -> str:
    """Return the principal of the signature, which has been verified for it."""
    try:
        allowed_signers.open("rb").close()
    except OSError as cause:
        raise SignatureError(
            f"{allowed_signers}: cannot be read ({cause.strerror})",
            hint="name a file as `ssh-keygen` describes it under ALLOWED SIGNERS",
            exit_code=Refusal.UNVERIFIABLE,
            option="allowed_signers",
            value="FILE",
        ) from cause
    known = _run("-Y", "find-principals", "-s", str(signature), "-f", str(allowed_signers))
    for principal in re.split(r"[\n,]", known.stdout.decode(errors="replace").strip()):
        if known.returncode != 0 or not principal or principal.startswith("!"):
            continue
        done = _run(
            *("-Y", "verify", "-n", NAMESPACE, "-I", principal),
            *("-f", str(allowed_signers), "-s", str(signature)),
            content=text,
        )
        if done.returncode == 0:
            return principal
    checked = _run("-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature), content=text)
    if checked.returncode != 0:
        _require_signatures(checked)
        raise _altered(path)
    key = checked.stdout.decode(errors="replace").strip().rpartition(" with ")[2]
    raise SignatureError(
        f"{path}: signed with {key}, which {allowed_signers} does not allow",
        hint=f"get the bundle from a signer that you trust, or add this one to {allowed_signers}",
        exit_code=Refusal.OTHER_SIGNER,
    )


def _altered(path: Path) -> SignatureError:
    return SignatureError(
        f"{path}: {storage.MANIFEST} does not match its signature in {storage.SIGNATURE}",
        hint="get the bundle from its signer again",
        exit_code=Refusal.ALTERED,
    )


def _require_signatures(done: subprocess.CompletedProcess[bytes]) -> None:
    """Raise ``SignatureError`` if the installed OpenSSH is too old for signatures."""
    if re.search(rb"unknown option|illegal option|unsupported operation", done.stderr, re.I):
        raise SignatureError(
            f"{_TOOL}: cannot verify signatures, found a version before OpenSSH 8.2",
            hint="install OpenSSH 8.2 or later",
            exit_code=Refusal.UNVERIFIABLE,
        )


def _run(*arguments: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run([_TOOL, *arguments], input=content, capture_output=True, check=False)
    except OSError as cause:
        raise SignatureError(
            f"{_TOOL}: cannot be started ({cause.strerror})",
            hint="install the OpenSSH client",
            exit_code=Refusal.UNVERIFIABLE,
        ) from cause


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the last message of ssh-keygen, without its prompts."""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    last = lines[-1] if lines else f"exit code {done.returncode}"
    return last.rpartition("passphrase: ")[2].strip().rstrip(".")
