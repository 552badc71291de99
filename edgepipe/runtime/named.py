"""A sequence whose items also have names: a pipeline's ports, a result's arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from edgepipe.errors import PipelineError
from edgepipe.names import suggest

T = TypeVar("T")


class Named(Generic[T]):
    """Items by index, by slice and by name; iteration yields the items, ``in`` tests for a name.

    Raises PipelineError for a name or an index that does not exist.
    """

    __slots__ = ("_items", "names")

    def __init__(self, names: tuple[str, ...], items: Sequence[T]) -> None:
        self.names = names
        self._items = items

    def __getitem__(self, key: int | str) -> T:
        if isinstance(key, str):
            if key not in self.names:
                raise PipelineError(f"{key!r} is unknown", hint=suggest(key, self.names))
            return self._items[self.names.index(key)]
        try:
            return self._items[key]
        except IndexError:
            raise PipelineError(
                f"index {key} is out of range",
                hint=f"there are {len(self.names)}: {', '.join(self.names)}",
            ) from None

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def items(self) -> Iterator[tuple[str, T]]:
        """Yield each name with its item."""
        return iter(zip(self.names, self._items, strict=True))

    def __repr__(self) -> str:
        return f"Named({', '.join(f'{name}={item!r}' for name, item in self.items())})"
