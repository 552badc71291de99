"""The hint of an error that a test provokes, in this process or in a forked child."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import pytest

from edgepipe.errors import EdgepipeError


def hint_of(fail: Callable[[], object], error: type[EdgepipeError] = EdgepipeError) -> str:
    """Call ``fail``; return the hint of the ``error`` that it raises."""
    with pytest.raises(error) as caught:
        fail()
    return caught.value.hint


def hint_in_child(fail: Callable[[], object]) -> str:
    """Call ``fail`` in a forked child; return the hint of the error that it raises there."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            fail()
            os.write(writer, b"no error")
        except EdgepipeError as error:
            os.write(writer, (error.hint or f"no hint: {error}").encode())
        except BaseException:
            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        hint = answer.read()
    assert os.waitpid(child, 0)[1] == 0
    return hint
