"""Schemes as TOML files (docs/reference/scheme.md): their text, and strict reading."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgepipe import exports, schema
from edgepipe.errors import EdgepipeError, QuantizeError, advise
from edgepipe.exports import Export
from edgepipe.names import printable
from edgepipe.quantize.options import LayerOptions, QuantizeOptions
from edgepipe.quantize.scheme import Scheme, TensorRange
from edgepipe.quantize.thresholds import RULES

Float = NDArray[np.float64]

FORMAT = 1
# A tensor is float32.
_MOST = float(np.finfo(np.float32).max)
# Of the largest magnitude: a mean is rounded, and may lie this much outside the values' range.
_ROUNDING = 1e-6
EXPORT = Export(
    kind="scheme",
    option="export_scheme",
    keys=frozenset(["format", "threshold_rule"]),
    error=QuantizeError,
)
"""How builds write schemes."""

_HEADER = """\
# Quantisation scheme of edgepipe. A build with it runs no calibration.
# Edit thresholds, ranges and options; network and preprocess say what it belongs to.
# A table [layers."NAME"] gives a layer its own threshold_rule, equalise, bias_correction, rounding.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The keys of the file outside its tables."""

    format: int
    network: str
    preprocess: str
    frames: int
    threshold_rule: str
    equalise: float
    leaky_steps: int
    bias_correction: bool
    rounding: str
    float_layers: tuple[str, ...] = ()
    int16_layers: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKeys:
    """The keys of a layer's table; all may be missing."""

    threshold_rule: str | None = None
    equalise: float | None = None
    bias_correction: bool | None = None
    rounding: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """The keys of a tensor's table."""

    threshold: float
    low: tuple[float, ...]
    high: tuple[float, ...]
    mean: tuple[float, ...]
    thresholds: dict[str, float] = field(default_factory=dict)


def to_toml(
    scheme: Scheme,
    scales: Mapping[str, Float] | None = None,
    zeros: Mapping[str, int] | None = None,
) -> str:
    """Return the text of a scheme's file; numbers keep all of their digits.

    Steps (``scales``, each float64[channels]) and zero points (``zeros``) of int8 tensors become
    comments. Raises ``QuantizeError`` for a name that TOML cannot hold.
    """
    options = scheme.options
    lines = [
        f"{_HEADER}format = {FORMAT}",
        f"network = {_string(scheme.network)}",
        f"preprocess = {_string(scheme.preprocess)}",
        f"frames = {scheme.frames}",
        f"threshold_rule = {_value(options.threshold)}",
        f"equalise = {_value(options.equalise)}",
        f"leaky_steps = {options.leaky_steps}",
        f"bias_correction = {_value(options.bias_correction)}",
        f"float_layers = [{', '.join(map(_string, options.float_layers))}]",
        f"int16_layers = [{', '.join(map(_string, options.int16_layers))}]",
        f"rounding = {_value(options.rounding)}",
        f"seed = {options.seed}",
    ]
    for name, layer in options.layers.items():
        lines += ["", f"[layers.{_string(name)}]"]
        lines += [f"{_key(key)} = {_value(value)}" for key, value in layer.choices.items()]
    for name, found in scheme.tensors.items():
        lines += ["", f"[tensors.{_string(name)}]"]
        lines += _chosen(name, scales or {}, zeros or {})
        lines.append(f"threshold = {float(found.threshold)!r}")
        if found.thresholds:
            by_rule = (f"{rule} = {float(found.thresholds[rule])!r}" for rule in RULES)
            lines.append(f"thresholds = {{ {', '.join(by_rule)} }}")
        lines += [f"{key} = {_array(getattr(found, key))}" for key in ("low", "high", "mean")]
    return "\n".join(lines) + "\n"


def _string(text: str) -> str:
    return exports.toml_string(text, QuantizeError)


def _key(option: str) -> str:
    """Return the key of an option of a layer."""
    return "threshold_rule" if option == "threshold" else option


def _value(option: str | float | bool) -> str:
    if isinstance(option, bool):
        return "true" if option else "false"
    return _string(option) if isinstance(option, str) else repr(float(option))


def _array(values: Float) -> str:
    return f"[{', '.join(repr(float(value)) for value in values)}]"


def _chosen(name: str, scales: Mapping[str, Float], zeros: Mapping[str, int]) -> list[str]:
    """Return a comment with the steps that the quantiser chose for a tensor."""
    for form in (name, f"{name}.int8"):
        if form in scales:
            least, most = float(scales[form].min()), float(scales[form].max())
            steps = f"step {least:.6g}" if least == most else f"steps {least:.6g} to {most:.6g}"
            return [f"# int8: {steps}, zero point {zeros.get(form, 0)}"]
    return []


def read(path: Path) -> Scheme:
    """Read a scheme; raise ``QuantizeError`` for any key or value that does not belong there.

    Whether it fits a network is checked by ``scheme.check_fits``.
    """
    with advise("correct the scheme; docs/reference/scheme.md explains every key"):
        return _scheme(path)


def _scheme(path: Path) -> Scheme:
    where = str(path)
    document = schema.read_toml(path, QuantizeError)
    if document.get("format") != FORMAT:
        raise QuantizeError(
            f"{where}: format: found {document.get('format', 'none')}, expected {FORMAT}",
            hint="export the scheme with this version of edgepipe",
        )
    tables = document.pop("tensors", {})
    if not isinstance(tables, dict):
        raise QuantizeError(
            f"{where}: tensors: expected a table for each tensor",
            hint='write [tensors."NAME"] above its values',
        )
    choices = document.pop("layers", {})
    if not isinstance(choices, dict):
        raise QuantizeError(
            f"{where}: layers: expected a table for each layer",
            hint='write [layers."NAME"] above its keys',
        )
    layers = {name: _layer(name, table, where) for name, table in choices.items()}
    found = schema.from_table(File, document, where, QuantizeError)
    tensors = {name: _range(name, table, where) for name, table in tables.items()}
    if found.frames < 1:
        raise QuantizeError(
            f"{where}: frames: found {found.frames}, expected at least 1",
            hint="restore the exported number",
        )
    return Scheme(
        network=found.network,
        preprocess=found.preprocess,
        frames=found.frames,
        options=_options(found, layers, where),
        tensors=tensors,
        where=where,
    )


def _layer(name: str, table: object, where: str) -> LayerOptions:
    """Return the choices in a layer's table."""
    where = f"{where}: layer {printable(name)}"
    found = schema.from_table(LayerKeys, table, where, QuantizeError)
    try:
        return LayerOptions(
            threshold=found.threshold_rule,
            equalise=found.equalise,
            bias_correction=found.bias_correction,
            rounding=found.rounding,
        )
    except EdgepipeError as cause:
        raise QuantizeError(f"{where}: {cause}", hint=cause.hint) from cause


def _options(found: File, layers: Mapping[str, LayerOptions], where: str) -> QuantizeOptions:
    try:
        return QuantizeOptions(
            threshold=found.threshold_rule,
            frames=found.frames,
            equalise=found.equalise,
            leaky_steps=found.leaky_steps,
            bias_correction=found.bias_correction,
            float_layers=found.float_layers,
            int16_layers=found.int16_layers,
            rounding=found.rounding,
            seed=found.seed,
            layers=layers,
        )
    except EdgepipeError as cause:
        raise QuantizeError(f"{where}: {cause}", hint=cause.hint) from cause


def _range(name: str, table: object, where: str) -> TensorRange:
    """Return the range in a tensor's table, if its values are possible."""
    where = f"{where}: tensor {printable(name)}"
    found = schema.from_table(Tensor, table, where, QuantizeError)
    if not 0 <= found.threshold <= _MOST:
        raise QuantizeError(
            f"{where}: threshold: found {found.threshold}, expected 0 to {_MOST:.7g}",
            hint="give the largest magnitude that int8 should cover",
        )
    if found.thresholds:
        _check_by_rule(found.thresholds, where)
    sizes = {len(found.low), len(found.high), len(found.mean)}
    if len(sizes) > 1 or 0 in sizes:
        raise QuantizeError(
            f"{where}: found {len(found.low)} values in low, {len(found.high)} in high and "
            f"{len(found.mean)} in mean, expected one for each channel",
            hint="restore the exported values",
        )
    for channel, (low, high, mean) in enumerate(
        zip(found.low, found.high, found.mean, strict=True)
    ):
        _check_channel(f"{where}: channel {channel}", low, high, mean)
    return TensorRange(
        low=np.array(found.low),
        high=np.array(found.high),
        mean=np.array(found.mean),
        threshold=found.threshold,
        thresholds=found.thresholds,
    )


def _check_by_rule(thresholds: Mapping[str, float], where: str) -> None:
    """Raise ``QuantizeError`` unless every rule has a possible threshold."""
    remedy = "restore the exported values, or remove the key"
    if thresholds.keys() != RULES.keys():
        raise QuantizeError(
            f"{where}: thresholds: found {', '.join(thresholds)}, expected {', '.join(RULES)}",
            hint=remedy,
        )
    for rule, value in thresholds.items():
        if not 0 <= value <= _MOST:
            raise QuantizeError(
                f"{where}: thresholds: {rule}: found {value}, expected 0 to {_MOST:.7g}",
                hint=remedy,
            )


def _check_channel(where: str, low: float, high: float, mean: float) -> None:
    for key, value in (("low", low), ("high", high), ("mean", mean)):
        if not math.isfinite(value) or abs(value) > _MOST:
            raise QuantizeError(
                f"{where}: {key}: found {value}, expected {-_MOST:.7g} to {_MOST:.7g}",
                hint="give a finite float32 number",
            )
    slack = _ROUNDING * max(abs(low), abs(high))
    if low > high:
        raise QuantizeError(
            f"{where}: low: found {low}, expected at most high, which is {high}",
            hint="exchange the two, or restore the exported values",
        )
    if not low - slack <= mean <= high + slack:
        raise QuantizeError(
            f"{where}: mean: found {mean}, expected {low} to {high}, as low and high say",
            hint="change low, high and mean together",
        )


def require_ranges(calibration: Path | None, scheme: Path | None) -> None:
    """Raise ``QuantizeError`` if there are neither calibration pictures nor a scheme."""
    if calibration is None and scheme is None:
        raise QuantizeError(
            "neither calibration pictures nor a scheme, expected one of them for the ranges",
            hint="give a folder of typical pictures",
            option="calibration",
            value="DIR",
        )
