"""Text from a bundle, file or board, made safe to print on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

_CONTROLS = (
    *(range(0x00, 0x09), range(0x0A, 0x20)),  # C0 without the tab
    range(0x7F, 0xA0),  # DEL and C1
    *(range(0x061C, 0x061D), range(0x200E, 0x2010)),  # marks of the writing direction
    *(range(0x2028, 0x202F), range(0x2066, 0x206A)),  # line breaks, embeddings and overrides
)
# The C++ runtime has the same ranges in src/base/console.cc; a test compares them.


def escapes(*, kept: Iterable[str] = ()) -> dict[int, str]:
    """Return a table for ``str.translate`` that escapes controls, except the characters ``kept``.

    An escape is that of JSON, such as ``\\u001b``, so JSON texts keep their meaning.
    """
    table = {code: f"\\u{code:04x}" for codes in _CONTROLS for code in codes}
    return {code: text for code, text in table.items() if chr(code) not in kept}


_ESCAPES = escapes()


def printable(text: str) -> str:
    """Return ``text`` on one line, without a character that controls a terminal.

    Line breaks, C0 and C1 controls, DEL and marks of the writing direction become escapes such as
    ``\\u001b``. Everything else stays, including tabs.
    """
    return text.translate(_ESCAPES)
