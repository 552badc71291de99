"""What stands for an object of the C++ side: its functions, let go of once."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import Any, ClassVar

from edgepipe.closing import Closing
from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.library import Function, StatusError, status_failure


class Handle(Closing):
    """Owns a module of TVM-FFI, whose functions are the object's.

    The object is let go of by ``close``, or together with this one; ``end`` is the name of the
    function that ends it before, if it has one. ``keep`` lives as long.

    In a forked child the object is its parent's: every call is an error, and nothing is let go of.
    """

    # Classes of failures by codes of cpp_runtime/include/edgepipe/status.h, where not the usual.
    _kinds: ClassVar[Mapping[int, type[RuntimeFailure]]] = {}

    def __init__(self, what: str, module: Any, *, end: str = "", keep: Any = None) -> None:
        self._what = what
        self._process = os.getpid()
        self._functions = _Functions(what, module)
        self._finalizer = weakref.finalize(self, _let_go, self._functions, end, keep, self._process)

    def close(self) -> None:
        """Let go of the object, whatever it is doing; any later call is an error."""
        self._finalizer()

    def _check_open(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeFailure(
                f"{self._what}: belongs to process {self._process}, this is process {os.getpid()}",
                hint="open it in the process that uses it",
            )
        if not self._finalizer.alive:
            raise _used_after_close(self._what)

    def _call(self, function: str, *arguments: object) -> Any:
        """Call one of the object's functions; raise RuntimeFailure when its status failed."""
        self._check_open()
        try:
            return self._functions[function](*arguments)
        except StatusError as cause:
            failure = status_failure(str(cause), self._kinds)
            raise failure or cause from self._origin(str(cause)) or cause

    def _origin(self, text: str) -> BaseException | None:
        """Return the exception of this process that a failed status tells of, if there is one."""
        return None


class _Functions(dict[str, Function]):
    """A module's functions, each fetched when it is first called."""

    def __init__(self, what: str, module: Any) -> None:
        super().__init__()
        self._what = what
        self.module = module

    def __missing__(self, name: str) -> Function:
        module = self.module
        if module is None:  # another thread has closed it since _check_open
            raise _used_after_close(self._what)
        found: Function = module.get_function(name)
        self[name] = found
        return found


def _used_after_close(what: str) -> RuntimeFailure:
    return RuntimeFailure(f"{what}: used after close()")


def _let_go(functions: _Functions, end: str, _keep: Any, process: int) -> None:
    if os.getpid() != process:
        return
    # Ended by a call: a thread that waits in one of the functions would keep the object at work.
    # This call holds what the object may refer to until then.
    if end:
        functions[end]()
    functions.clear()
    functions.module = None
