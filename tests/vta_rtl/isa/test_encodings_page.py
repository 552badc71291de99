"""The page of encodings is the one that the codec's table gives."""

from __future__ import annotations

from instruction_records import EXTENDED

from vta_rtl.isa.document import MEANINGS, MEMORIES, OPERATIONS, PAGE, page
from vta_stages.accelerator import Accelerator
from vta_stages.isa.fields import instruction_fields, uop_fields
from vta_stages.isa.instructions import EXTENSIONS, MEMORY_EXTENSIONS


def test_the_page_is_current() -> None:
    found = PAGE.read_text(encoding="utf-8")
    assert found == page(), "write it again: python -m vta_rtl.isa.document"


def test_it_explains_every_field() -> None:
    fields = [f for a in EXTENDED for each in instruction_fields(a).values() for f in each]
    names = {field.name for field in (*fields, *uop_fields(Accelerator()))}
    assert names == set(MEANINGS)


def test_it_explains_every_extension() -> None:
    assert set(OPERATIONS) == set(EXTENSIONS)
    assert set(MEMORIES) == set(MEMORY_EXTENSIONS)
    for code in (*EXTENSIONS, *MEMORY_EXTENSIONS):
        assert page().count(f"| {code.value} {code.name} |") == 1
