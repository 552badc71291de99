"""Digests of what is generated from the circuit, and the versions of what generates it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version


def digest_of(text: str) -> dict[str, object]:
    """Return a text's SHA-256 and its length in bytes."""
    content = text.encode()
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Return the installed versions of Python packages."""
    return {name: version(name) for name in packages}
