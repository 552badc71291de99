"""``edgepipe inspect``: what a bundle contains or a network would become, and what runs where."""

from __future__ import annotations

import argparse
import dataclasses
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgepipe.bundle import storage
from edgepipe.bundle.copies import copies
from edgepipe.bundle.hand_overs import StageEnds, hand_overs
from edgepipe.bundle.manifest import Manifest, Stage
from edgepipe.cli import arguments
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import print_line
from edgepipe.errors import BundleError
from edgepipe.frontend.tflite import is_tflite
from edgepipe.report.table import format_table
from vta_stages.isa.instructions import Module

DESCRIPTION = """\
Check a bundle's digests and show its stages and where each operator runs; or say, before a build,
what would run where in an ONNX network, with times and memory by the model of the board."""
EPILOG = """\
A network is imported, quantised with made-up ranges, and placed; nothing is calibrated or written.
Without a description, one is drafted as `edgepipe init` does. The exit code is 3 if the network
would not build.

examples:
  edgepipe inspect net.onnx --board ultra96
  edgepipe inspect net.onnx --board ultra96 --objective latency
  edgepipe inspect net.edgepipe --operators
"""

_DEFAULT_BOARD = "ultra96"
_FOR_BUNDLES = ("operators", "disassemble", "timing")
_FOR_NETWORKS = (
    *("board", "cut", "place", "depthwise", "objective", "max_latency_ms", "stages", "slots"),
    *("description", "float", "int16", "rules", "placement", "export_placement", "costs"),
    "beside",
)


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "inspect", DESCRIPTION, EPILOG)
    parser.add_argument(
        "bundle", metavar="FILE", type=Path, help="bundle (folder or archive) or network (*.onnx)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    bundles = parser.add_argument_group("bundles")
    bundles.add_argument("--operators", action="store_true", help="list every operator's placement")
    bundles.add_argument(
        "--disassemble", metavar="STAGE", help="print the instructions of a VTA stage's program"
    )
    bundles.add_argument(
        "--timing",
        action="store_true",
        help="print the modelled cycles of every VTA stage, by layer and module",
    )
    networks = parser.add_argument_group("networks")
    networks.add_argument(
        "--board",
        metavar="BOARD",
        help=f"name of a known board, or a board's .toml file (default: {_DEFAULT_BOARD})",
    )
    arguments.add_arrangement(networks)
    arguments.add_float(networks)
    arguments.add_int16(networks)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what was asked for of a bundle or a network."""
    if options.bundle.suffix.lower() == ".onnx":
        _refuse(options, _FOR_BUNDLES, "build it, then inspect the bundle")
        # Only here, because it needs TVM: a bundle can be inspected without.
        from edgepipe.cli.network_inspection import inspect_network

        return inspect_network(options, _DEFAULT_BOARD)
    _refuse(options, _FOR_NETWORKS, "they belong to networks; a bundle contains its arrangement")
    manifest = _check(options.bundle)
    if options.json:
        print(json.dumps(_with_copies(options.bundle, manifest), indent=1))
    elif options.disassemble is not None:
        print_program(options.bundle, manifest, options.disassemble)
    elif options.timing:
        print_timing(options.bundle, manifest)
    else:
        print_summary(options.bundle, manifest)
        if options.operators:
            print()
            print_operators(manifest)
    return 0


def _with_copies(path: Path, manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as JSON has it, with the tensors between stages and the copies in them.

    Raises BundleError for a damaged stage.
    """
    stages = (
        StageEnds(name=s.name, device=s.kind, reads=s.inputs, writes=s.outputs)
        for s in manifest.stages
    )
    found = hand_overs(stages, {tensor.name: tensor for tensor in manifest.tensors})
    table = dataclasses.asdict(manifest)
    table["hand_overs"] = [dataclasses.asdict(each) for each in found]
    table["copies"] = [dataclasses.asdict(each) for each in copies(path, manifest)]
    return table


def _check(path: Path) -> Manifest:
    """Return the checked bundle's manifest; raise BundleError, also for any other kind of file."""
    try:
        return storage.check(path)
    except BundleError as cause:
        if (
            path.suffix == storage.ARCHIVE_SUFFIX
            or is_tflite(path)
            or not isinstance(cause.__cause__, tarfile.TarError)
        ):
            raise
        raise BundleError(
            f"{path}: neither a bundle nor an ONNX network",
            hint="name a bundle (a folder or *.edgepipe) or a network (*.onnx)",
        ) from cause


def _refuse(options: argparse.Namespace, names: Sequence[str], hint: str) -> None:
    """Raise BundleError for options that do not belong to the kind of file that was given."""
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name)]
    if given:
        raise BundleError(f"{options.bundle}: {', '.join(given)} cannot be used for it", hint=hint)


def print_summary(path: Path, manifest: Manifest) -> None:
    """Print the stages, the operators that are not on the VTA, with reasons, and the totals."""
    fingerprint = manifest.fingerprint
    print_line(
        f"{path}: {manifest.name} for {manifest.board} ({', '.join(manifest.architectures)})"
    )
    print_line(
        f"accelerator {fingerprint.configuration}, encoding revision {fingerprint.revision}, "
        f"{fingerprint.clock_hz / 1e6:.0f} MHz, "
        f"bitstream {fingerprint.bitstream or 'none published'}"
    )
    print()
    rows = []
    for stage in manifest.stages:
        count = sum(1 for p in manifest.placement if p.stage == stage.name)
        folders = tuple(f"{folder}/" for folder in (stage.folder, stage.fallback) if folder)
        size = sum(f.bytes for f in manifest.files if f.path.startswith(folders))
        reads = ", ".join(_tensor(manifest, name) for name in stage.inputs)
        writes = ", ".join(_tensor(manifest, name) for name in stage.outputs)
        rows.append(
            [
                stage.name,
                f"{stage.kind}, else arm" if stage.fallback else stage.kind,
                str(count),
                f"{size / 1024:.0f}",
                _threads(stage),
                _short(reads),
                _short(writes),
            ]
        )
    print(format_table(["stage", "device", "operators", "KiB", "threads", "reads", "writes"], rows))
    print()
    print("not on the VTA:")
    for reason, operators in _reasons(manifest).items():
        print_line(f"  {_short(', '.join(operators), 60)}: {reason}")
    total = sum(f.bytes for f in manifest.files)
    print(f"\n{len(manifest.files)} files, {total / 1024:.0f} KiB, digests correct")


def _threads(stage: Stage) -> str:
    cores = ",".join(map(str, stage.cores))
    if stage.threads > 1:
        return f"{stage.threads}, on cores {cores}"
    return f"1, on {'core' if len(stage.cores) == 1 else 'any of'} {cores}" if cores else "1"


def print_operators(manifest: Manifest) -> None:
    """Print every operator's kind, stage, device and reason."""
    rows = [[p.operator, p.kind, p.stage, p.device, p.reason] for p in manifest.placement]
    print(format_table(["operator", "kind", "stage", "device", "reason"], rows))


def print_program(path: Path, manifest: Manifest, stage_name: str) -> None:
    """Print the instruction listing of one VTA stage.

    Raises BundleError for a stage that is unknown or not on the VTA.
    """
    from edgepipe.bundle.stages import read_program
    from vta_stages.disassembler import disassemble

    vta = [stage.name for stage in manifest.stages if stage.kind == "vta"]
    if stage_name not in vta:
        raise BundleError(
            f"{path}: no VTA stage {stage_name!r}", hint=f"VTA stages: {', '.join(vta) or 'none'}"
        )
    stage = next(stage for stage in manifest.stages if stage.name == stage_name)
    print(disassemble(read_program(path, manifest, stage)))


def print_timing(path: Path, manifest: Manifest) -> None:
    """Print the modelled cycles of every VTA stage, by layer and module.

    The costs are those that a program was compiled with. Shares are of its cycles with the launch;
    docs/reference/glossary.md defines them. Raises BundleError for a bundle without VTA stages or
    the record of its operators, or with costs that this version does not know.
    """
    from edgepipe.bundle import network
    from edgepipe.bundle_report.programs import timed
    from vta_stages.timing.timing_model import ModuleTiming

    vta = [stage for stage in manifest.stages if stage.kind == "vta"]
    if not vta:
        raise BundleError(
            f"{path}: no VTA stage, so there is nothing to time",
            hint="`edgepipe inspect --operators` shows why its operators are on arm",
        )
    products = {each.name: each.products for each in network.read(path, manifest).operators}
    for stage in vta:
        _, timing = timed(path, manifest, stage)
        milliseconds = 1e3 * timing.cycles / manifest.accelerator.clock_hz
        inside = [p.operator for p in manifest.placement if p.stage == stage.name]
        ideal = sum(products[name] for name in inside) / manifest.accelerator.macs_per_cycle
        real, steps = (100 * n / max(timing.cycles, 1) for n in (ideal, timing.gemm_steps))
        print_line(
            f"{stage.name}: {timing.cycles} cycles, {timing.launch_cycles} of them for the launch "
            f"and caches; {milliseconds:.2f} ms at {manifest.accelerator.clock_hz / 1e6:.0f} MHz; "
            f"ideal {ideal:.0f} cycles (real products in {real:.1f} %), GEMM steps in {steps:.1f} %"
        )
        rows = []
        parts = [(layer.name, layer.cycles, layer.modules) for layer in timing.layers]
        for name, cycles, modules in [*parts, ("all", timing.cycles, timing.modules)]:
            for module, spent in modules.items():
                figures = [getattr(spent, field.name) for field in dataclasses.fields(ModuleTiming)]
                if any(figures):
                    label = [_short(name, 40), str(cycles)] if module is Module.LOAD else ["", ""]
                    rows.append([*label, module.name.lower(), *map(str, figures)])
        header = ["layer", "cycles", "module", "busy", "wait fetch", "wait previous", "wait next"]
        print(format_table([*header, "wait port", "bytes"], rows))


def _reasons(manifest: Manifest) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for placement in manifest.placement:
        if placement.device == "arm":
            reasons.setdefault(placement.reason, []).append(placement.operator)
    return reasons


def _tensor(manifest: Manifest, name: str) -> str:
    tensor = manifest.tensor(name)
    return f"{name} {tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def _short(text: str, most: int = 44) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
