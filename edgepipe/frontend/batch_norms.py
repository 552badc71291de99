"""What a batch normalisation must be so that it can become factors and constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from edgepipe.errors import FrontendError
from edgepipe.frontend.onnx_graph import all_constants_of, array_of


def require_variances(path: Path, model: onnx.ModelProto) -> None:
    """Raise ``FrontendError`` for a variance that has no square root: its channel is undefined."""
    constants = all_constants_of(model.graph)
    for node in model.graph.node:
        if node.op_type != "BatchNormalization" or node.input[4] not in constants:
            continue
        epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
        variance = np.asarray(array_of(constants[node.input[4]]), np.float64).reshape(-1)
        wrong = np.flatnonzero(~(variance + epsilon > 0))
        if wrong.size:
            raise FrontendError(
                f"{path}: BatchNormalization {node.output[0]!r}: the variance of channel "
                f"{wrong[0]} is {variance[wrong[0]]:g}, expected at least 0",
                hint="train the network further or export it again: its results are not numbers",
            )
