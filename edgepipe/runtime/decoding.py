"""Decode a network's outputs as a bundle's description says, with the code that runs on boards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.runtime.frames import Found, read_found
from edgepipe.runtime.handle import Functions, Handle
from edgepipe.runtime.library import as_tensor, call

Outputs = Mapping[str, NDArray[Any]]


class OutputDecoder(Handle):
    """Decodes outputs that no pipeline computed, such as those of a float network.

    ``postprocess`` is the table of that name in a bundle's manifest. ``size`` is (width, height) of
    the network's input, in pixels, and ``shapes`` has the shape of every output. Raises
    RuntimeFailure if they do not fit together. Not thread-safe.
    """

    def __init__(
        self,
        postprocess: Mapping[str, object],
        size: tuple[int, int],
        shapes: Mapping[str, tuple[int, ...]],
        *,
        labels: tuple[str, ...] = (),
        most_boxes: int = 100,
        most_candidates: int = 1000,
    ) -> None:
        description = {
            "width": size[0],
            "height": size[1],
            "tensors": [{"name": name, "shape": list(shape)} for name, shape in shapes.items()],
            "postprocess": dict(postprocess),
            "labels": list(labels),
            "most_boxes": most_boxes,
            "most_candidates": most_candidates,
        }
        super().__init__(Functions("decoder", call("open_decoder", json.dumps(description))))
        self._names = tuple(shapes)

    def decode(self, outputs: Outputs) -> Found:
        """Return what ``outputs`` show; boxes and points are in pixels of the network's input.

        The arrays have the shapes that were given and become float32. Raises RuntimeFailure for
        arrays of another size.
        """
        arrays = [np.ascontiguousarray(outputs[name], np.float32) for name in self._names]
        found, _ = read_found(bytes(self._call("decode", *map(as_tensor, arrays))), 0)
        return found
