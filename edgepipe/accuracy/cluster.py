"""Pictures on the machines of a Dask cluster: each runs the bundle's pipeline on its simulator.

Only the integer network runs there. Its bits are the same on every machine, and the float network,
whose last bits are not, runs on this one, so the figures are those of a run without the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from edgepipe import __version__, scratch
from edgepipe.accuracy.data import Sample
from edgepipe.accuracy.devices import SIMULATOR
from edgepipe.accuracy.measures import Outputs
from edgepipe.bundle import storage
from edgepipe.errors import AccuracyError, EdgepipeError
from edgepipe.frontend.preprocess import Frame
from edgepipe.loading import load
from edgepipe.runtime.pipeline import Pinning

if TYPE_CHECKING:
    from distributed import Client, Future

BATCH = 16
"""Pictures of a task: their results are small, and opening a bundle takes as long as a few run."""
AHEAD = 2
"""Tasks for each thread of the cluster that wait or run, so that none is idle."""
CONNECT_S = 10.0
"""How long the scheduler may take to answer."""
PATIENCE_S = 30.0
"""How long the cluster may be without workers: a nanny takes seconds to start one again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """A bundle on all workers of a cluster, in batches of pictures."""

    client: Client = field(repr=False)
    address: str
    bundle: Path

    @property
    def name(self) -> str:
        """The simulator, which gives the same bits on every machine."""
        return SIMULATOR

    def run(self, pictures: Iterable[Sample]) -> Iterator[tuple[Sample, Outputs]]:
        """Yield every picture with its outputs, in order.

        Raises ``AccuracyError`` if the cluster loses the work or all of its workers, and the errors
        of the pipeline on a worker.
        """
        # A task, and not scattered data, is computed again when the workers that had it die.
        content = self.client.submit(bytes, _packed(self.bundle))
        source = iter(pictures)
        running: deque[tuple[list[Sample], Future]] = deque()
        try:
            while True:
                while len(running) < AHEAD * max(1, self.threads()):
                    batch = list(islice(source, BATCH))
                    if not batch:
                        break
                    frames = np.concatenate([picture.frame for picture in batch])
                    running.append(
                        (batch, self.client.submit(answers, content, frames, pure=False))
                    )
                if not running:
                    return
                batch, future = running.popleft()
                yield from zip(batch, self._answers(future), strict=True)
        finally:
            for _, future in running:
                future.cancel()

    def threads(self) -> int:
        """Return how many tasks all workers together run at a time.

        Raises ``AccuracyError`` if the scheduler does not answer.
        """
        try:
            return sum(int(threads) for threads in self.client.nthreads().values())
        except (asyncio.CancelledError, OSError, TimeoutError) as cause:
            raise self._lost() from cause

    def _answers(self, future: Future) -> list[dict[str, NDArray[Any]]]:
        """Wait for a batch's outputs."""
        from distributed import CancelledError

        lonely_since = None
        try:
            while not _is_done(future):
                if self.threads():
                    lonely_since = None
                elif lonely_since is None:
                    lonely_since = time.monotonic()
                elif time.monotonic() - lonely_since > PATIENCE_S:
                    raise self.without_workers()
            if future.status == "error":
                raise self._failed(future.exception(timeout=CONNECT_S))
            found: list[dict[str, NDArray[Any]]] = future.result(timeout=CONNECT_S)
        except (CancelledError, asyncio.CancelledError, OSError, TimeoutError) as cause:
            raise self._lost() from cause
        return found

    def _failed(self, cause: Exception) -> EdgepipeError:
        """Return the error of a batch that a worker could not run."""
        from distributed import KilledWorker

        if isinstance(cause, EdgepipeError):
            return cause
        if isinstance(cause, KilledWorker):
            return AccuracyError(
                f"Dask at {self.address}: every worker that ran a batch of pictures died",
                hint="a worker's log says why; one with less memory than it needs is killed",
            )
        return AccuracyError(
            f"Dask at {self.address}: a batch of pictures failed: {type(cause).__name__}: {cause}",
            hint="a worker's log says more",
        )

    def _lost(self) -> AccuracyError:
        return AccuracyError(
            f"Dask at {self.address}: the connection to the scheduler was lost",
            hint="start the scheduler and its workers again, and repeat the command",
        )

    def without_workers(self) -> AccuracyError:
        """Return the error of a cluster in which nothing runs."""
        return AccuracyError(
            f"Dask at {self.address}: the scheduler has no workers",
            hint=f"start one on each machine: dask worker {self.address}",
        )


def _is_done(future: Future) -> bool:
    """Wait up to a second for a task's end, whatever it is."""
    # The task's own, which its result raises again, and that of a lost connection.
    with contextlib.suppress(Exception, asyncio.CancelledError):
        future.result(timeout=1.0)
    return bool(future.done())


def answers(bundle: bytes, frames: Frame) -> list[dict[str, NDArray[Any]]]:
    """Return the outputs of a packed bundle for frames uint8[n, h, w, c]; a task on a worker."""
    with scratch.folder("dask") as folder:
        path = folder / "net.edgepipe"
        path.write_bytes(bundle)
        with load(path, device=SIMULATOR, pinning=Pinning.OFF) as pipeline:
            results = pipeline.map(frame[None] for frame in frames)
            return [dict(result.outputs.items()) for result in results]


def version() -> str:
    """Return edgepipe's version; a task on a worker."""
    return __version__


@contextlib.contextmanager
def connected(address: str, bundle: Path) -> Iterator[Clustered]:
    """Connect to the scheduler at ``address`` (``HOST:PORT`` or ``tls://HOST:PORT``).

    Raises ``AccuracyError`` if Dask is not installed, if nothing answers, if there are no workers,
    or if one has no edgepipe or another version of it.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as cause:
        raise AccuracyError(
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
        workers = Clustered(client=client, address=address, bundle=bundle)
        if not workers.threads():
            raise workers.without_workers()
        yield workers


def _require_scheduler(address: str) -> None:
    """Raise ``AccuracyError`` unless something at ``address`` speaks Dask's protocol in time."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None:
        raise AccuracyError(
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


def _silent(address: str) -> AccuracyError:
    return AccuracyError(
        f"Dask at {address}: no scheduler answers within {CONNECT_S:.0f} s",
        hint="start it on that machine with `dask scheduler`, and let its port through",
    )


def _require_same_version(client: Client, address: str) -> None:
    """Raise ``AccuracyError`` unless every worker has this edgepipe."""
    ours = version()
    try:
        found = client.run(version)
    except Exception as cause:  # from a worker without edgepipe, of any kind
        raise AccuracyError(
            f"Dask at {address}: a worker cannot import edgepipe: {cause}",
            hint=f"install edgepipe {ours} there, and start the worker again",
        ) from cause
    for worker, theirs in sorted(found.items()):
        if theirs != ours:
            raise AccuracyError(
                f"Dask at {address}: worker {worker} has edgepipe {theirs}, expected {ours}",
                hint=f"install edgepipe {ours} there, and start the worker again",
            )


def _packed(bundle: Path) -> bytes:
    with scratch.folder("dask") as folder:
        return storage.pack(bundle, folder / "net.edgepipe").read_bytes()
