"""Where the integer network runs: on the simulator here, or on a board beside the simulator."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edgepipe import tvm_adapter
from edgepipe.accuracy.data import Sample
from edgepipe.accuracy.measures import Outputs
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import FOLDS, Manifest, Stage, Tensor, is_in_blocks
from edgepipe.errors import DifferenceError
from edgepipe.frontend.preprocess import Frame
from edgepipe.loading import load
from edgepipe.rpc.failures import rpc_error
from edgepipe.rpc.session import Session
from edgepipe.runtime.library import call
from vta_stages.accelerator import Accelerator
from vta_stages.isa.layout import unpack_activation
from vta_stages.layers.folding import unfolded

Array = NDArray[Any]
SIMULATOR = "simulator"


class Device(Protocol):
    """Runs pictures through a bundle."""

    @property
    def name(self) -> str:
        """What computes the VTA stages, and where."""

    def run(self, pictures: Iterable[Sample]) -> Iterator[tuple[Sample, Outputs]]:
        """Yield every picture with its outputs by name, in order."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """The bundle's pipeline on this machine: kernels for its CPU, VTA stages on the simulator."""

    bundle: Path

    @property
    def name(self) -> str:
        """The simulator."""
        return SIMULATOR

    def run(self, pictures: Iterable[Sample]) -> Iterator[tuple[Sample, Outputs]]:
        """Yield every picture with its outputs. Raises as ``edgepipe.load`` and its pipeline do."""
        waiting: deque[Sample] = deque()

        def frames() -> Iterator[Frame]:
            for picture in pictures:
                waiting.append(picture)
                yield picture.frame

        with load(self.bundle, device=SIMULATOR) as pipeline:
            for result in pipeline.map(frames()):
                yield waiting.popleft(), dict(result.outputs.items())


CallStage = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnBoard:
    """A bundle's stages on a board, each compared with the same stage on this machine's simulator.

    A stage on the board reads what the stages before it computed there, which is what the simulator
    computed, as every border has been compared.
    """

    host: str
    device: str
    manifest: Manifest
    _far: CallStage = field(repr=False)
    _near: CallStage = field(repr=False)

    @classmethod
    def open(cls, session: Session, bundle: Path, *, device: str, host: str) -> OnBoard:
        """Upload ``bundle`` and open it on the board and here.

        ``device`` runs the VTA stages on the board: auto, simulator or uio. Raises ``RpcError`` and
        ``RuntimeFailure``.
        """
        far = session.call("edgepipe.open_bundle", session.upload_bundle(bundle), device)
        near = call("open_bundle", os.fsencode(bundle).decode(errors="surrogateescape"), SIMULATOR)
        call_far = session.keep(session.keep(far)["call_stage"])

        def on_board(index: int, *inputs: bytes) -> bytes:
            try:
                found: bytes = session.exchange.call(lambda: bytes(call_far(index, *inputs)))
                return found
            except tvm_adapter.RPC_ERRORS as cause:
                raise rpc_error(cause) from cause

        return cls(
            host=host,
            device=device,
            manifest=storage.read_manifest(bundle),
            _far=on_board,
            _near=near["call_stage"],
        )

    @property
    def name(self) -> str:
        """The board and the device of its VTA stages."""
        return f"{self.host or 'edgepipe-rpcd'} ({self.device})"

    def run(self, pictures: Iterable[Sample]) -> Iterator[tuple[Sample, Outputs]]:
        """Yield every picture with its outputs on the board.

        Raises ``DifferenceError`` for the first element that differs from the simulator, and
        ``RpcError``.
        """
        manifest = self.manifest
        for picture in pictures:
            values = {manifest.inputs[0]: picture.frame.tobytes()}
            for index, stage in enumerate(manifest.stages):
                inputs = [values[name] for name in stage.inputs]
                tensors = [manifest.tensor(name) for name in stage.outputs]
                near = _split(bytes(self._near(index, *inputs)), tensors)
                far = _split(bytes(self._far(index, *inputs)), tensors)
                for tensor in tensors:
                    if near[tensor.name] != far[tensor.name]:
                        raise _difference(
                            self, picture, stage, tensor, near[tensor.name], far[tensor.name]
                        )
                values |= far
            yield (
                picture,
                {
                    name: as_array(manifest.tensor(name), values[name], manifest.accelerator)
                    for name in manifest.outputs
                },
            )


def as_array(tensor: Tensor, content: bytes, accelerator: Accelerator) -> Array:
    """Return a border tensor's bytes as an array of its logical shape, in any layout."""
    if not is_in_blocks(tensor.layout):
        return np.frombuffer(content, tensor.dtype).reshape(tensor.shape)
    _, channels, height, width = tensor.shape
    factor = FOLDS[tensor.layout]
    packed = np.frombuffer(content, np.int8).reshape(
        -1, height // factor, width // factor, accelerator.batch, accelerator.block_in
    )
    return unfolded(unpack_activation(accelerator, packed, channels * factor**2), factor)


def _split(content: bytes, tensors: Iterable[Tensor]) -> dict[str, bytes]:
    found = {}
    for tensor in tensors:
        found[tensor.name], content = content[: tensor.bytes], content[tensor.bytes :]
    return found


def _difference(
    device: OnBoard, picture: Sample, stage: Stage, tensor: Tensor, near: bytes, far: bytes
) -> DifferenceError:
    accelerator = device.manifest.accelerator
    expected, found = (as_array(tensor, content, accelerator) for content in (near, far))
    differing = expected != found
    if not differing.any():  # only in the unused channels of the last block, which nothing reads
        where = "only in channels that it does not have"
    else:
        index = tuple(int(i) for i in np.argwhere(differing)[0])
        where = (
            f"first at element {list(index)}: {found[index]} instead of {expected[index]} "
            f"({int(differing.sum())} of {differing.size} elements)"
        )
    return DifferenceError(
        f"{device.name}: layer {tensor.name} (stage {stage.name}) differs from the simulator in "
        f"picture {picture.name}, {where}",
        hint="examine the board",
        option="examination" if device.host else "",
        value=device.host,
    )
