"""What the command line prints as an error's hint: the library's text and the flag to use."""

from __future__ import annotations

import argparse

from edgepipe import resources
from edgepipe.errors import EdgepipeError

FLAGS = {
    "allow_root": "--allow-root",
    "allow_simulator": "--allow-simulator",
    "allowed_signers": "--allowed-signers",
    "beside": "--beside",
    "board": "--board",
    "bundle": "--bundle",
    "calibration": "--calib",
    "description": "--description",
    "export_placement": "--export-placement",
    "export_scheme": "--export-scheme",
    "fpga_model": "--fpga-model",
    "host": "--host",
    "keep": "--keep",
    "key": "--key",
    "max_latency_ms": "--max-latency-ms",
    "metric": "--metric",
    "most_pixels": "--max-pixels",
    "network": "--network",
    "output": "--output",
    "overwrite": "--force",
    "placement": "--place",
    "port": "--port",
    "rebuild": "--rebuild",
    "root": "--root",
    "runtime": "--runtime",
    "scheme": "--scheme",
    "server": "--server",
    "stages": "--stages",
    "unit": "--unit",
}
"""The flag for an error's ``option``, shown by commands that have it."""

COMMANDS = {
    "examination": "edgepipe doctor --host",
    "journal": "edgepipe logs --host",
    "releases": "edgepipe deploy --list --host",
}
"""The command for an error's ``option`` that no flag sets."""

WITHOUT_HINT = "if the text does not help: edgepipe --debug COMMAND ... shows where it failed"
"""What is printed for errors that have no hint."""


def hint_of(error: EdgepipeError, options: argparse.Namespace | None) -> str:
    """Return the hint of ``error`` for the command that was called with ``options``.

    Documents in it are paths that exist here.
    """
    way = COMMANDS.get(error.option, "")
    flag = FLAGS.get(error.option, "")
    if flag and hasattr(options, flag.lstrip("-").replace("-", "_")):
        way = flag
    if way:
        return resources.with_paths(f"{error.hint}: {way} {error.value}".rstrip())
    return resources.with_paths(error.hint) or WITHOUT_HINT
