"""``edgepipe sign``: sign a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from edgepipe.bundle import signature, storage
from edgepipe.cli.arguments import add_command

DESCRIPTION = "Sign a bundle with an OpenSSH key, in place of any signature that it has."
EPILOG = """\
The signature covers the manifest, and with it the digest of every file, the bundle's name and its
version. KEY is an OpenSSH private key, or the public part of one in an agent. For a passphrase,
OpenSSH asks on the terminal.

examples:
  ssh-keygen -t ed25519 -f release_key
  edgepipe sign net.edgepipe --key release_key
  edgepipe sign net.edgepipe --key release_key.pub       # after: ssh-add release_key
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "sign", DESCRIPTION, EPILOG)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="bundle folder or archive")
    parser.add_argument(
        "--key", required=True, type=Path, metavar="KEY", help="OpenSSH key that signs"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Sign the bundle and print what was signed."""
    manifest = signature.sign(options.bundle, options.key)
    print(f"{options.bundle}: signed {manifest.name}, {manifest.version_text}")
    print(f"the signature is in {storage.SIGNATURE}")
    return 0
