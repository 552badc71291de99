"""A handle to an object of the C++ runtime: its functions, released exactly once."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from edgepipe.closing import Closing
from edgepipe.errors import EdgepipeError, RuntimeFailure
from edgepipe.runtime.library import Function, StatusError, status_failure


class Handle(Closing):
    """Owns a module of TVM-FFI, whose functions are the object's.

    ``close`` releases the object, and so does garbage collection of this one. Before that, ``end``
    is called with the functions. ``keep`` is kept alive as long.

    In a forked child the object belongs to the parent: every call is an error, and nothing is
    released.
    """

    def __init__(
        self,
        functions: Functions,
        *,
        end: Callable[[Functions], None] | None = None,
        keep: Any = None,
    ) -> None:
        self._functions = functions
        self._finalizer = weakref.finalize(self, _let_go, functions, end, keep, os.getpid())

    def close(self) -> None:
        """Release the object, even if it is busy; any later call is an error."""
        self._finalizer()

    def _call(self, function: str, *arguments: object) -> Any:
        """Call one of the object's functions; raise RuntimeFailure if its status is an error."""
        return self._functions.call(function, *arguments)


class _Forks:
    """The number of forks since the first process; ``os.getpid`` would be a system call."""

    count = 0

    @classmethod
    def add(cls) -> None:
        cls.count += 1


os.register_at_fork(after_in_child=_Forks.add)


class Functions(dict[str, Function]):
    """A module's functions, each fetched when it is first called; none remain after ``end``.

    ``kinds`` maps codes of ``edgepipe/status.h`` to the classes of failures, except the usual one;
    ``origin`` finds the exception of this process that a failure's text reports, if there is one.
    """

    def __init__(
        self,
        what: str,
        module: Any,
        *,
        kinds: Mapping[int, type[RuntimeFailure]] | None = None,
        origin: Callable[[str], BaseException | None] | None = None,
    ) -> None:
        super().__init__()
        self._process = os.getpid()
        self._forks = _Forks.count
        self._origin = origin
        self._what = what
        self._kinds = kinds
        self.module = module

    def __missing__(self, name: str) -> Function:
        module = self.module
        if module is None:
            raise RuntimeFailure(f"{self._what}: used after close()")
        found: Function = module.get_function(name)
        self[name] = found
        return found

    def call(self, function: str, *arguments: object) -> Any:
        """Call a function; raise RuntimeFailure if its status is an error."""
        self.check_process()
        try:
            return self[function](*arguments)
        except StatusError as cause:
            self.fail(cause)

    @property
    def is_here(self) -> bool:
        """Whether this is the process that opened the object."""
        return self._forks == _Forks.count

    def check_process(self) -> None:
        """Raise RuntimeFailure in a forked child. Before any lock, on which a child might hang."""
        if self._forks != _Forks.count:
            raise RuntimeFailure(
                f"{self._what}: belongs to process {self._process}, this is process {os.getpid()}",
                hint="open it in the process that uses it",
            )

    def end(self) -> None:
        """Release the module; any later call is an error."""
        self.module = None
        self.clear()

    def failure(self, cause: BaseException) -> RuntimeFailure | None:
        """Return the failure that an exception's text reports, or None."""
        return status_failure(str(cause), self._kinds)

    def fail(self, cause: BaseException) -> NoReturn:
        """Raise the failure that ``cause`` reports, chained to this process's own exception if any.

        The C++ side passes on the text of a Python stage's error, but not its hint.
        """
        origin = (self._origin and self._origin(str(cause))) or cause
        failure = self.failure(cause)
        if failure and not failure.hint and isinstance(origin, EdgepipeError):
            failure.hint = origin.hint
        raise failure or cause from origin


def _let_go(
    functions: Functions, end: Callable[[Functions], None] | None, _keep: Any, process: int
) -> None:
    if os.getpid() != process:
        return
    # A call ends it, because a thread that waits in one of the functions would keep the object
    # alive. The call holds what the object may refer to until then.
    if end is not None:
        end(functions)
    functions.end()
