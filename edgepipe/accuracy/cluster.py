"""Pictures on the machines of a Dask cluster: each runs the bundle's pipeline on its simulator.

Only the integer network runs there. Its bits are the same on every machine, and the float network,
whose last bits are not, runs on this one, so the figures are those of a run without the cluster.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgepipe import cluster, scratch
from edgepipe.accuracy.data import Sample
from edgepipe.accuracy.devices import SIMULATOR
from edgepipe.accuracy.measures import Outputs
from edgepipe.bundle import storage
from edgepipe.cluster import Cluster
from edgepipe.frontend.preprocess import Frame
from edgepipe.loading import load
from edgepipe.runtime.pipeline import Pinning

if TYPE_CHECKING:
    from distributed import Future

BATCH = 16
"""Pictures of a task: their results are small, and opening a bundle takes as long as a few run."""
AHEAD = 2
"""Tasks for each thread of the cluster that wait or run, so that none is idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """A bundle on all workers of a cluster, in batches of pictures."""

    cluster: Cluster
    bundle: Path

    @property
    def name(self) -> str:
        """The simulator, which gives the same bits on every machine."""
        return SIMULATOR

    def run(self, pictures: Iterable[Sample]) -> Iterator[tuple[Sample, Outputs]]:
        """Yield every picture with its outputs, in order.

        Raises ``ClusterError`` if the cluster loses the work or all of its workers, and the errors
        of the pipeline on a worker.
        """
        # A task, and not scattered data, is computed again when the workers that had it die.
        content = self.cluster.submit(bytes, _packed(self.bundle))
        source = iter(pictures)
        running: deque[tuple[list[Sample], Future]] = deque()
        try:
            while True:
                while len(running) < AHEAD * max(1, self.cluster.threads()):
                    batch = list(islice(source, BATCH))
                    if not batch:
                        break
                    frames = np.concatenate([picture.frame for picture in batch])
                    running.append((batch, self.cluster.submit(answers, content, frames)))
                if not running:
                    return
                batch, future = running.popleft()
                yield from zip(
                    batch, self.cluster.result(future, "a batch of pictures"), strict=True
                )
        finally:
            for _, future in running:
                future.cancel()


def answers(bundle: bytes, frames: Frame) -> list[dict[str, NDArray[Any]]]:
    """Return the outputs of a packed bundle for frames uint8[n, h, w, c]; a task on a worker."""
    with scratch.folder("dask") as folder:
        path = folder / "net.edgepipe"
        path.write_bytes(bundle)
        with load(path, device=SIMULATOR, pinning=Pinning.OFF) as pipeline:
            results = pipeline.map(frame[None] for frame in frames)
            return [dict(result.outputs.items()) for result in results]


@contextlib.contextmanager
def connected(address: str, bundle: Path) -> Iterator[Clustered]:
    """Connect to the scheduler at ``address`` (``HOST:PORT`` or ``tls://HOST:PORT``).

    Raises ``ClusterError`` as ``cluster.connected`` does.
    """
    with cluster.connected(address) as workers:
        yield Clustered(cluster=workers, bundle=bundle)


def _packed(bundle: Path) -> bytes:
    with scratch.folder("dask") as folder:
        return storage.pack(bundle, folder / "net.edgepipe").read_bytes()
