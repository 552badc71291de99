"""What a bitstream of one's own is: a file of JSON beside it, ``FILE.bit.json`` for ``FILE.bit``.

The scripts of ``bitstreams/`` write it. It has the keys of an entry of ``manifest.toml``.
"""

from __future__ import annotations

import json
from pathlib import Path

from edgepipe import schema
from edgepipe.bitstream.manifest import Digests, KnownBitstream
from edgepipe.errors import BitstreamError, advise


def beside(path: Path, digests: Digests) -> KnownBitstream | None:
    """Return the entry beside the bitstream at ``path``, or None if there is none.

    Raises ``BitstreamError`` if it is damaged, or of a bitstream with other digests.
    """
    entry = path.with_name(f"{path.name}.json")
    try:
        text = entry.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as cause:
        raise BitstreamError(
            f"{entry}: cannot be read ({cause})", hint="name a readable file"
        ) from cause
    with advise("make the bitstream again (bitstreams/README.md), or remove this file"):
        try:
            known = schema.from_table(KnownBitstream, json.loads(text), str(entry), BitstreamError)
        except (ValueError, RecursionError) as cause:
            raise BitstreamError(f"{entry}: not valid JSON: {cause}") from cause
        if known.sha256 != digests.sha256:
            raise BitstreamError(
                f"{entry}: sha256 is {known.sha256 or 'missing'}, {path.name} has {digests.sha256}"
            )
    return known
