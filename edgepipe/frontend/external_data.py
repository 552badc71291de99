"""Read the weights that an ONNX file keeps in other files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from onnx import TensorProto
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data

from edgepipe.errors import FrontendError


def read_external_data(path: Path, model: onnx.ModelProto) -> None:
    """Put the values of constants that are in files beside ``path`` into ``model``.

    Exporters do so with large networks, and PyTorch's default one with all. Raises
    ``FrontendError`` that names the other file if it is missing, not in the folder of ``path``, a
    link, or too short.
    """
    nodes = [node for function in model.functions for node in function.node]
    for tensor in (*_of_graph(model.graph), *_of_nodes(nodes)):
        if not uses_external_data(tensor):
            continue
        try:
            load_external_data_for_tensor(tensor, str(path.parent))
        except (onnx.checker.ValidationError, ValueError, OSError) as cause:
            raise _unreadable(path, tensor) from cause


def _of_graph(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """Yield the constants of a graph, also those of its nodes and their subgraphs."""
    yield from graph.initializer
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from _of_graph(attribute.g)


def _unreadable(path: Path, tensor: TensorProto) -> FrontendError:
    """Return the error that says what is wrong with the file that should have a constant."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    location = fields.get("location", "")
    file = path.parent / location
    what = f"{path}: weight {tensor.name!r} is in {location!r}"
    if not location or Path(location).is_absolute() or ".." in Path(location).parts:
        return FrontendError(
            f"{what}, expected a file in the folder of the network",
            hint="export the network again, with both files in one folder",
        )
    if file.is_symlink() or (file.is_file() and file.stat().st_nlink > 1):
        return FrontendError(
            f"{what}, which is a link; expected a file of its own",
            hint=f"copy {path.name} and {location} into another folder (cp -L copies what a link "
            "names), and use them there",
        )
    if not file.is_file():
        return FrontendError(
            f"{what}, which is {'not a file' if file.exists() else 'missing'}; expected it in "
            "the folder of the network",
            hint="the exporter wrote two files: keep them in one folder, under their names",
        )
    begin, length = (fields.get(key, "0") for key in ("offset", "length"))
    return FrontendError(
        f"{what} at byte {begin} with {length} bytes, but that file has {file.stat().st_size}",
        hint="copy both files again, or export the network again: they do not belong together",
    )
