"""Integer Relax computed call by call, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class EagerRelax:
    """Computes what would be written as Relax, and asserts that no integer overflows.

    ``x`` is the tensor of that name; ``emit`` is that of ``ModuleBuilder``.
    """

    def __init__(self, x: NDArray[np.int8]) -> None:
        self.values: dict[str, NDArray[Any]] = {"x": x}

    def emit(self, name: str, op: str, *args: Any, **attributes: Any) -> str:
        found = [self.values[a] if isinstance(a, str) else a for a in args]
        self.values[name] = getattr(self, op)(*found, **attributes)
        return name

    def _fits(self, exact: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        limits = np.iinfo(dtype)
        assert exact.min() >= limits.min
        assert exact.max() <= limits.max
        return exact.astype(dtype)

    def _exact(self, compute: Any, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        assert a.dtype == b.dtype
        wide = object if a.dtype == np.int64 else np.int64
        return self._fits(np.asarray(compute(a.astype(wide), b.astype(wide))), a.dtype)

    def abs(self, a: NDArray[Any]) -> NDArray[Any]:
        return self._fits(np.abs(a.astype(np.int64)), a.dtype)

    def add(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return self._exact(np.add, a, b)

    def subtract(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return self._exact(np.subtract, a, b)

    def multiply(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return self._exact(np.multiply, a, b)

    def sum(self, a: NDArray[Any], *, axis: list[int], keepdims: bool) -> NDArray[Any]:
        wide = a.astype(object if a.dtype == np.int64 else np.int64)
        return self._fits(np.asarray(wide.sum(tuple(axis), keepdims=keepdims)), a.dtype)

    def right_shift(self, a: NDArray[Any], by: NDArray[Any]) -> NDArray[Any]:
        assert a.dtype == by.dtype
        assert by.min() >= 0
        assert by.max() < 8 * a.dtype.itemsize
        return np.asarray(a >> by)

    def astype(self, a: NDArray[Any], *, dtype: str) -> NDArray[Any]:
        return self._fits(a, np.dtype(dtype))

    def take(self, a: NDArray[Any], index: NDArray[Any], *, axis: int, mode: str) -> NDArray[Any]:
        assert mode == "clip"
        assert index.min() >= 0
        assert index.max() < a.shape[axis]
        return np.asarray(np.take(a, index, axis))

    def greater_equal(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(a >= b).astype(np.int8)

    def clip(self, a: NDArray[Any], low: int, high: int) -> NDArray[Any]:
        return np.clip(a, low, high)

    def reshape(self, a: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        return a.reshape(shape)
