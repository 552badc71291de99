"""Load TOML tables into frozen dataclasses; an unknown or missing key or wrong type is an error."""

from __future__ import annotations

import tomllib
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from edgepipe.errors import EdgepipeError

T = TypeVar("T")


def read_toml(path: Path, error: type[EdgepipeError]) -> dict[str, Any]:
    """Return the TOML document at ``path``; raise ``error`` if it is missing or not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as cause:
        raise error(f"{path}: no such file", hint="check the name of the TOML file") from cause
    except OSError as cause:
        raise error(
            f"{path}: cannot be read ({cause.strerror})", hint="name a readable TOML file"
        ) from cause
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise error(f"{path}: not valid TOML: {cause}") from cause


def from_table(cls: type[T], table: object, where: str, error: type[EdgepipeError]) -> T:
    """Build dataclass ``cls`` from a TOML table, including nested dataclasses.

    ``where`` names the table in messages. TOML arrays become tuples; a field of type ``dict`` is a
    table with any keys; an integer is accepted where a float is expected. Raises ``error`` for
    unknown or missing keys and for values of the wrong type.
    """
    if not isinstance(table, dict):
        raise error(f"{where}: found {_kind(table)}, expected a table")
    hints = typing.get_type_hints(cls)
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise error(f"{where}: unknown key {key!r}", hint=f"known keys: {', '.join(known)}")
    values: dict[str, Any] = {}
    for name, field in known.items():
        if name in table:
            values[name] = _convert(hints[name], table[name], f"{where}: {name}", error)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise error(f"{where}: key {name!r} is missing")
    return cls(**values)


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string"}
    names |= {list: "an array", dict: "a table"}
    return names.get(type(value), type(value).__name__)


def _convert(hint: Any, value: object, where: str, error: type[EdgepipeError]) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        alternatives = [arm for arm in typing.get_args(hint) if arm is not type(None)]
        return _convert(alternatives[0], value, where, error)
    if is_dataclass(hint) and isinstance(hint, type):
        return from_table(hint, value, where, error)
    if origin is tuple:
        if not isinstance(value, list):
            raise error(f"{where}: found {_kind(value)}, expected an array")
        element = typing.get_args(hint)[0]
        return tuple(_convert(element, v, f"{where}[{i}]", error) for i, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise error(f"{where}: found {_kind(value)}, expected a table")
        _, element = typing.get_args(hint)
        return {key: _convert(element, v, f"{where}: {key}", error) for key, v in value.items()}
    if hint is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise error(f"{where}: found an integer that is too large for a float") from None
    if type(value) is not hint:
        raise error(f"{where}: found {_kind(value)} {value!r}, expected {_kind(hint())}")
    return value
