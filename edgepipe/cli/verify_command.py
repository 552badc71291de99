"""``edgepipe verify``: print who signed a bundle, or why its signature is refused."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from edgepipe.bundle import signature
from edgepipe.cli.arguments import add_command

DESCRIPTION = "Check that one of the allowed signers signed a bundle as it is now."
EPILOG = """\
FILE has a line for each signer, as ssh-keygen(1) describes it under ALLOWED SIGNERS:

  alice@example.com namespaces="edgepipe-bundle" ssh-ed25519 AAAAC3...

exit codes: 0 signed by one of them, 15 not signed, 16 signed by somebody else, 17 altered after it
was signed, 19 cannot be verified on this machine
"""


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "verify", DESCRIPTION, EPILOG)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="bundle folder or archive")
    parser.add_argument(
        "--allowed-signers",
        required=True,
        type=Path,
        metavar="FILE",
        help="signers to trust, as OpenSSH lists them",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Verify the signature and print the signer."""
    manifest, signer = signature.verify(options.bundle, options.allowed_signers)
    print(f"{options.bundle}: {manifest.name}, {manifest.version_text}, signed by {signer}")
    return 0
