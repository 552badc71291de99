"""Parsers of commands, and types of arguments.

A malformed value ends the program with argparse's message and exit code 2.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgepipe.cli.commands import COMMANDS
from edgepipe.errors import PartitionError
from edgepipe.partition.choices import BY_RULE, DEPTHWISE, OBJECTIVES
from edgepipe.partition.target import EXPECTED, target
from edgepipe.picture_size import MOST_PIXELS

MOST = 1_000_000_000


def whole(text: str, *, least: int = 0, most: int = MOST) -> int:
    """Return a number from ``least`` to ``most``."""
    number = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else -1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected a number from {least} to {most}"
        )
    return number


def positive(text: str) -> int:
    """Return a number that is at least 1."""
    return whole(text, least=1)


def seed(text: str) -> int:
    """Return the seed of a build, up to ``quantize.options.MOST_SEED``."""
    return whole(text, most=2**31 - 1)


def add_max_pixels(parser: argparse.ArgumentParser) -> None:
    """Add the limit of a picture's size to a command that reads pictures."""
    parser.add_argument(
        "--max-pixels",
        type=positive,
        default=MOST_PIXELS,
        metavar="N",
        help="refuse pictures of more than N pixels before they are decoded (default: "
        "%(default)s, enough for 7680x4320)",
    )


def add_scheme(parser: argparse.ArgumentParser) -> None:
    """Add the quantisation scheme to a command that quantises a network."""
    parser.add_argument(
        "--scheme",
        type=Path,
        metavar="FILE",
        help="quantise with this scheme of `edgepipe build --export-scheme`, without calibration",
    )
    parser.add_argument(
        "--rounding",
        choices=("nearest", "reconstruct"),
        help="how weights are rounded: each to the nearest integer, or so that the layer's results "
        "on the calibration pictures change least, which takes longer (default: that of the "
        "scheme, or nearest)",
    )


def add_float(parser: argparse._ActionsContainer) -> None:
    """Add the layers that stay in floating point to a command that quantises a network."""
    parser.add_argument(
        "--float",
        action="append",
        default=[],
        metavar="LAYER",
        help="compute this layer, or with FIRST..LAST all layers from one to another, in floating "
        "point on ARM instead of in int8 (repeatable)",
    )


def add_int16(parser: argparse._ActionsContainer) -> None:
    """Add the layers that are computed in int16 to a command that quantises a network."""
    parser.add_argument(
        "--int16",
        action="append",
        default=[],
        metavar="LAYER",
        help="compute this layer, or with FIRST..LAST all layers from one to another, in int16 on "
        "ARM instead of in int8 (repeatable)",
    )


def size(text: str) -> tuple[int, int]:
    """Return the height and the width of a size, such as (240, 320) for ``320x240``."""
    found = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", text)
    if not found:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected WIDTHxHEIGHT, such as 640x480")
    return int(found[2]), int(found[1])


def add_arrangement(parser: argparse._ActionsContainer) -> None:
    """Add what decides where operators run, and the description, to a command that reads networks.

    The device of depthwise convolutions is None if it is not given, which means ``auto``.
    """
    parser.add_argument(
        "--cut",
        action="append",
        default=[],
        metavar="NAME",
        help="end a stage after this operator (repeatable); the first cut is the boundary between "
        "ARM and VTA (default: after the first convolution)",
    )
    parser.add_argument(
        "--place",
        action="append",
        default=[],
        metavar="OP=DEVICE",
        help="run an operator on this device, arm or vta (repeatable); arm@1,2: its stage on these "
        "cores; arm/NAME: with this code generator of --rules; vta+arm:32: on both side by side, "
        "its last 32 output channels on arm",
    )
    parser.add_argument(
        "--depthwise",
        choices=DEPTHWISE,
        help="device for depthwise convolutions; auto: the one with more frames per second by a "
        "model of the board (default: auto)",
    )
    parser.add_argument(
        "--objective",
        choices=(*OBJECTIVES, BY_RULE),
        help="search all placements for the most frames per second, for the shortest time of a "
        "frame alone, or for the least time that the accelerator and the cores together are busy "
        "for a frame, each counted alike because their power is not known; rule: no search "
        "(default: most frames per second, if that is 2 %% more than by the rule and a frame alone "
        "takes at most 15 %% longer)",
    )
    parser.add_argument(
        "--max-latency-ms",
        type=milliseconds,
        metavar="MS",
        help="search for a split whose results are there MS after a frame's start, also while "
        "frames keep coming; it can have fewer frames in flight",
    )
    parser.add_argument(
        "--stages", type=positive, metavar="N", help="search for a split of at most N stages"
    )
    parser.add_argument(
        "--slots",
        type=slots,
        metavar="N",
        help="frames in flight, if they fit into the board's memory (default: as many as the rate "
        "needs)",
    )
    parser.add_argument(
        "--placement",
        type=Path,
        metavar="FILE",
        help="run every operator on the device that this file of --export-placement gives; --place "
        "takes precedence",
    )
    parser.add_argument(
        "--export-placement",
        type=Path,
        metavar="FILE",
        help="write the device of every operator as TOML that can be edited, for --placement",
    )
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="placement rules that take precedence over edgepipe's own (repeatable)",
    )
    parser.add_argument(
        "--costs",
        type=Path,
        metavar="FILE",
        help="search with costs that `edgepipe measure --network` measured, where it did",
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        type=neighbour,
        metavar="BUNDLE@FPS",
        help="split for what this bundle leaves of the board while it runs there, too, at FPS "
        "frames per second (repeatable)",
    )
    parser.add_argument(
        "--description", type=Path, metavar="FILE", help="the network's description"
    )


def neighbour(text: str) -> tuple[Path, float]:
    """Return a bundle and its frames per second, such as ``street.edgepipe@15``."""
    path, _, rate = text.rpartition("@")
    fps = float(rate) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", rate) else 0.0
    if not path or not fps > 0:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected a bundle and its frames per second, such as "
            "street.edgepipe@15"
        )
    return Path(path), fps


def milliseconds(text: str) -> float:
    """Return a time in ms, more than 0 and at most a million."""
    number = float(text) if re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,6})?", text) else 0.0
    if not 0 < number <= 1e6:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected milliseconds, more than 0 and at most 1000000"
        )
    return number


def slots(text: str) -> int:
    """Return a number of frames in flight."""
    return whole(text, least=1, most=1024)


def port(text: str) -> int:
    """Return the number of a TCP port."""
    return whole(text, least=1, most=65535)


def cores(text: str) -> tuple[int, ...]:
    """Return core numbers, such as (0, 1) for ``0,1``."""
    return tuple(whole(part, most=65535) for part in text.split(","))


def placement(texts: Sequence[str]) -> dict[str, str]:
    """Turn ``OP=arm``, ``OP=vta+arm:32`` and ``OP=arm@1,2/mine`` into a mapping from operators to
    targets; raise ``PartitionError`` on other texts and on an operator with two placements."""
    overrides: dict[str, str] = {}
    for text in texts:
        name, _, device = text.rpartition("=")
        if not name:
            raise PartitionError(
                f"--place {text}: expected OPERATOR=arm or OPERATOR=vta",
                hint="`edgepipe inspect BUNDLE --operators` lists the operators",
            )
        try:
            target(device)
        except ValueError as cause:
            raise PartitionError(
                f"--place {text}: {cause}, expected {EXPECTED}",
                hint="`edgepipe inspect BUNDLE --operators` lists the operators",
            ) from cause
        if overrides.setdefault(name, device) != device:
            raise PartitionError(
                f"--place {text}: {name} is placed on {overrides[name]} already",
                hint="give one --place for each operator",
            )
    return overrides


def add_command(
    commands: Any, name: str, description: str, epilog: str | None = None
) -> argparse.ArgumentParser:
    """Add a command's parser to ``commands``; its help keeps the lines of ``epilog``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=COMMANDS[name.replace("-", "_")], description=description, epilog=epilog
    )
    if epilog is not None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser
