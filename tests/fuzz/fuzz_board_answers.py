"""What a board answers is refused in one line, or becomes values: `make fuzz` runs this.

Answers to the pre-flight check and inventory of a deploy, to the survey of `edgepipe doctor`, and
the record of the bitstream, of which any may come from another program on the board.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports():
    from edgepipe.bitstream import record
    from edgepipe.deploy import plan
    from edgepipe.doctor import survey
    from edgepipe.errors import BitstreamError, DeployError


def test_one_input(data: bytes) -> None:
    """Read one text as each of the answers."""
    text = data.decode(errors="replace")
    try:
        facts = plan.parse_facts(text, "board")
    except DeployError as error:
        assert str(error).startswith("board: ")
        assert error.hint
    else:
        assert facts.free_bytes >= 0
    inventory = plan.parse_inventory(text)
    for release in inventory.releases:
        assert release.number >= 0
    plan.make_plan([], inventory, keep=1)
    try:
        survey.parse(text, "board")
    except DeployError as error:
        assert str(error).startswith("board: ")
        assert error.hint
    try:
        record.parse(text, "board: bitstream.json")
    except BitstreamError as error:
        assert str(error).startswith("board: ")


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
