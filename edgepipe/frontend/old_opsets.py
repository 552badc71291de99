"""Networks of old opsets, as networks of a newer one."""

from __future__ import annotations

import onnx
from onnx.version_converter import convert_version

from edgepipe.frontend.onnx_graph import opset_of, set_attribute

OLDEST = 11
"""The oldest opset of TVM's importer: before, bounds of ``Slice`` and others are attributes."""

_NEW = 13


def modernise(model: onnx.ModelProto) -> None:
    """Convert ``model`` with an opset below 11 by onnx's own converter.

    A network that it cannot convert stays as it is; names do not change.
    """
    if opset_of(model) >= OLDEST:
        return
    try:
        converted = convert_version(model, _NEW)
        onnx.checker.check_model(converted)
    except Exception:  # the converter raises RuntimeError and its own kinds for what it lacks
        return
    for node in converted.graph.node:
        if node.op_type == "Resize":  # the converter leaves the newer default, half_pixel
            set_attribute(node, "coordinate_transformation_mode", "asymmetric")
            set_attribute(node, "nearest_mode", "floor")
    model.CopyFrom(converted)
