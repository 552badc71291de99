"""TensorFlow Lite networks, which are converted before they are built."""

from __future__ import annotations

from pathlib import Path
from shlex import quote


def is_tflite(path: Path) -> bool:
    """Whether a file has the identifier of TensorFlow Lite's format."""
    try:
        with path.open("rb") as file:
            return file.read(8)[4:] == b"TFL3"
    except OSError:  # whoever reads it next reports this
        return False


def conversion_hint(path: Path) -> str:
    """Return the command that converts a network to ONNX, next to it."""
    return (
        "convert it (pip install tf2onnx tensorflow): python -m tf2onnx.convert "
        f"--tflite {quote(str(path))} --opset 13 --output "
        f"{quote(str(path.with_suffix('.onnx')))}"
    )
