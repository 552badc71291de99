"""A Dask cluster: its scheduler's address, its workers, and tasks that outlive a worker.

    with connected("192.168.2.1:8786") as cluster:
        future = cluster.submit(function, argument)
        value = cluster.result(future, "a batch of pictures")

Dask repeats a task whose worker died on another one, so a task must be free of side effects.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from edgepipe import __version__
from edgepipe.errors import ClusterError, EdgepipeError

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_S = 10.0
"""How long the scheduler may take to answer."""
PATIENCE_S = 30.0
"""How long the cluster may be without workers: a nanny takes seconds to start one again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The workers of a Dask scheduler. Any thread may use it."""

    client: Client = field(repr=False)
    address: str

    def threads(self) -> int:
        """Return how many tasks all workers together run at a time.

        Raises ``ClusterError`` if the scheduler does not answer.
        """
        return sum(self.threads_by_worker().values())

    def threads_by_worker(self) -> dict[str, int]:
        """Return how many tasks each worker runs at a time. Raises as ``threads`` does."""
        try:
            return {name: int(threads) for name, threads in self.client.nthreads().items()}
        except (asyncio.CancelledError, OSError, TimeoutError) as cause:
            raise self._lost() from cause

    def everywhere(self, function: Callable[..., object], *arguments: object) -> dict[str, Any]:
        """Call a function on every worker; return the values by worker.

        Raises ``ClusterError`` for an error of the function, too.
        """
        try:
            return dict(self.client.run(function, *arguments))
        except (asyncio.CancelledError, OSError, TimeoutError) as cause:
            raise self._lost() from cause
        except Exception as cause:  # of any kind, from a worker
            raise ClusterError(
                f"Dask at {self.address}: a worker failed: {type(cause).__name__}: {cause}",
                hint="a worker's log says more",
            ) from cause

    def submit(self, function: Callable[..., object], *arguments: object) -> Future:
        """Let a worker call a function; arguments that are futures become their values.

        Equal calls are separate tasks.
        """
        return self.client.submit(function, *arguments, pure=False)

    def result(self, future: Future, what: str, ended: Callable[[], bool] = lambda: False) -> Any:
        """Wait for a task and return its value; ``what`` names it in errors.

        Raises ``ClusterError`` if the cluster loses the task or all of its workers, or if every
        worker that ran it died, and the ``EdgepipeError`` of the task itself. Once ``ended()``, the
        task is cancelled, which is such a loss.
        """
        from distributed import CancelledError

        lonely_since = None
        try:
            while not _is_done(future):
                if ended():
                    future.cancel()
                    raise self._lost()
                if self.threads():
                    lonely_since = None
                elif lonely_since is None:
                    lonely_since = time.monotonic()
                elif time.monotonic() - lonely_since > PATIENCE_S:
                    raise self.without_workers()
            if future.status == "error":
                raise self._failed(future.exception(timeout=CONNECT_S), what)
            return future.result(timeout=CONNECT_S)
        except (CancelledError, asyncio.CancelledError, OSError, TimeoutError) as cause:
            raise self._lost() from cause

    def _failed(self, cause: Exception, what: str) -> EdgepipeError:
        """Return the error of a task that a worker could not run."""
        from distributed import KilledWorker

        if isinstance(cause, EdgepipeError):
            return cause
        if isinstance(cause, KilledWorker):
            return ClusterError(
                f"Dask at {self.address}: every worker that ran {what} died",
                hint="a worker's log says why; one with less memory than it needs is killed",
            )
        return ClusterError(
            f"Dask at {self.address}: {what} failed: {type(cause).__name__}: {cause}",
            hint="a worker's log says more",
        )

    def _lost(self) -> ClusterError:
        return ClusterError(
            f"Dask at {self.address}: the connection to the scheduler was lost",
            hint="start the scheduler and its workers again, and repeat the command",
        )

    def without_workers(self) -> ClusterError:
        """Return the error of a cluster in which nothing runs."""
        return ClusterError(
            f"Dask at {self.address}: the scheduler has no workers",
            hint=f"start one on each machine: dask worker {self.address}",
        )


def _is_done(future: Future) -> bool:
    """Wait up to a second for a task's end, whatever it is."""
    # The task's own, which its result raises again, and that of a lost connection.
    with contextlib.suppress(Exception, asyncio.CancelledError):
        future.result(timeout=1.0)
    return bool(future.done())


def version() -> str:
    """Return edgepipe's version; a task on a worker."""
    return __version__


@contextlib.contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """Connect to the scheduler at ``address`` (``HOST:PORT`` or ``tls://HOST:PORT``).

    Raises ``ClusterError`` if Dask is not installed, if nothing answers, if there are no workers,
    or if one has no edgepipe or another version of it.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as cause:
        raise ClusterError(
            f"Dask at {address}: {cause.name} is not installed here",
            hint="pip install 'edgepipe[dask]', here and on every worker",
        ) from cause
    _require_scheduler(address)
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as cause:
        raise _silent(address) from cause
    with contextlib.closing(client):
        _require_same_version(client, address)
        cluster = Cluster(client=client, address=address)
        if not cluster.threads():
            raise cluster.without_workers()
        yield cluster


def _require_scheduler(address: str) -> None:
    """Raise ``ClusterError`` unless something at ``address`` speaks Dask's protocol in time."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None:
        raise ClusterError(
            f"Dask at {address!r}: expected HOST:PORT, as the scheduler prints it",
            hint="give the address of a scheduler, such as 192.168.2.1:8786",
        )
    try:
        asyncio.run(asyncio.wait_for(_greet(parts.geturl()), CONNECT_S))
    except (OSError, TimeoutError, ValueError) as cause:
        raise _silent(address) from cause


async def _greet(address: str) -> None:
    """Shake hands with a server, for which the client itself has no limit of time."""
    from distributed.comm import connect
    from distributed.security import Security

    comm = await connect(address, timeout=CONNECT_S, **Security().get_connection_args("client"))
    comm.abort()


def _silent(address: str) -> ClusterError:
    return ClusterError(
        f"Dask at {address}: no scheduler answers within {CONNECT_S:.0f} s",
        hint="start it on that machine with `dask scheduler`, and let its port through",
    )


def _require_same_version(client: Client, address: str) -> None:
    """Raise ``ClusterError`` unless every worker has this edgepipe."""
    ours = version()
    try:
        found = client.run(version)
    except Exception as cause:  # from a worker without edgepipe, of any kind
        raise ClusterError(
            f"Dask at {address}: a worker cannot import edgepipe: {cause}",
            hint=f"install edgepipe {ours} there, and start the worker again",
        ) from cause
    for worker, theirs in sorted(found.items()):
        if theirs != ours:
            raise ClusterError(
                f"Dask at {address}: worker {worker} has edgepipe {theirs}, expected {ours}",
                hint=f"install edgepipe {ours} there, and start the worker again",
            )
