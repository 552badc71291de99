"""Read the weights of a file that ``torch.save`` wrote before version 1.6, without torch.

Such a file is a sequence of pickles (a magic number, a version, facts about the machine, the
weights, the keys of their storages) and then the storages: the number of elements as int64, and the
elements. Only the names that weights need are unpickled, so a file cannot run code.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_MAGIC = 0x1950A86A20F9469CFC6C
_DTYPES = {"FloatStorage": "<f4", "LongStorage": "<i8"}


@dataclass(slots=True)
class _Storage:
    dtype: str
    elements: NDArray[Any] = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, slots=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self) -> NDArray[Any]:
        elements = self.storage.elements[self.offset :]
        size = elements.itemsize
        view = np.lib.stride_tricks.as_strided(
            elements, self.shape, [size * s for s in self.strides]
        )
        return np.ascontiguousarray(view)


def _rebuild(
    storage: _Storage, offset: int, shape: Sequence[int], strides: Sequence[int], *_: object
) -> _Tensor:
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module == "torch" and name in _DTYPES:
            return name
        raise pickle.UnpicklingError(f"{module}.{name} is not a name that weights need")

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, *_ = pid
        if kind != "storage":
            raise pickle.UnpicklingError(f"found a {kind}, expected a storage")
        return self.storages.setdefault(key, _Storage(_DTYPES[dtype]))


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of a state dictionary by name: float32[...] or int64[...].

    Raises ``pickle.UnpicklingError`` for a file of another kind.
    """
    with path.open("rb") as file:
        if _pickle_of(file) != _MAGIC:
            raise pickle.UnpicklingError(f"{path.name} is not a file of torch.save before 1.6")
        _pickle_of(file)  # the version
        _pickle_of(file)  # the machine
        unpickler = _Unpickler(file)
        tensors = unpickler.load()
        for key in _pickle_of(file):
            storage = unpickler.storages[key]
            (count,) = np.frombuffer(file.read(8), "<i8")
            dtype = np.dtype(storage.dtype)
            storage.elements = np.frombuffer(file.read(int(count) * dtype.itemsize), dtype)
    return {name: tensor.array() for name, tensor in tensors.items()}


def _pickle_of(file: BinaryIO) -> Any:
    """Return the next pickle, which holds nothing but numbers, texts and containers."""
    return _Unpickler(file).load()
