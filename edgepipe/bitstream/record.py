"""The record of the bitstream in a board's FPGA: one line of JSON on the board."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from edgepipe import schema
from edgepipe.errors import BitstreamError


@dataclass(frozen=True, slots=True, kw_only=True)
class BitstreamRecord:
    """``/run/edgepipe/bitstream.json``.

    ``path`` names a published file, or one of the user's own with an entry. For any other file it
    is empty, and configuration, revision and clock are those of the board's description.
    ``reference_clock_hz`` is the clock of the processors that the accelerator's is made from, 0 if
    that is not known.
    """

    path: str
    sha256: str
    part: str
    configuration: str
    revision: str
    clock_hz: int
    installed_by: str
    installer_version: str
    reference_clock_hz: int = 0


def to_json(record: BitstreamRecord) -> str:
    """Return the record as one line."""
    values = asdict(record)
    if not record.reference_clock_hz:
        del values["reference_clock_hz"]  # as records have always been
    return json.dumps(values)


def parse(text: str, where: str) -> BitstreamRecord:
    """Parse a record; raise ``BitstreamError`` if it is damaged or from another version."""
    try:
        return schema.from_table(BitstreamRecord, json.loads(text), where, BitstreamError)
    except (ValueError, RecursionError) as cause:
        raise BitstreamError(
            f"{where}: the record of the bitstream is damaged: {cause}",
            hint="program the FPGA again with `edgepipe bitstream install`",
        ) from cause
