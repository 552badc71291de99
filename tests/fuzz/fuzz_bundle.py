"""A bundle of arbitrary bytes is refused in one line, or read: `make fuzz` runs this.

`edgepipe inspect`, `sign`, `verify` and `deploy` read a bundle of another here.
"""

from __future__ import annotations

import sys

import atheris
import json_mutator

with atheris.instrument_imports():
    from edgepipe import scratch
    from edgepipe.bundle import manifest, storage
    from edgepipe.errors import BundleError, EdgepipeError

# libFuzzer ends the process without Python's exit, also after Ctrl-C. The folder's watcher remains.
_FILE = scratch.new_folder("fuzz-bundle") / "net.edgepipe"


def test_one_input(data: bytes) -> None:
    """Read an archive, or a manifest for which no digest has to be right."""
    if data[:1] == b"{":
        try:
            manifest.from_json(data, "net.edgepipe")
        except EdgepipeError as error:
            assert "\n" not in str(error)
        return
    _FILE.write_bytes(data)
    try:
        storage.read_all(_FILE)
    except BundleError as error:
        assert str(error).startswith(str(_FILE))


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input, custom_mutator=json_mutator.mutate)
    atheris.Fuzz()
