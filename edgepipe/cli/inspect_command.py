"""``edgepipe inspect``: show what a bundle contains, where each operator runs and why."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import Manifest, Stage
from edgepipe.cli.arguments import add_command
from edgepipe.cli.console import print_line
from edgepipe.errors import BundleError, advise
from edgepipe.report.table import format_table
from vta_stages.isa.instructions import Module
from vta_stages.timing.cost_model import CostModel

HELP = "show what a bundle contains"
DESCRIPTION = "Check a bundle's digests and show its stages and where each operator runs."


def add_parser(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "inspect", HELP, DESCRIPTION)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="bundle folder or archive")
    parser.add_argument("--operators", action="store_true", help="list every operator's placement")
    parser.add_argument(
        "--disassemble", metavar="STAGE", help="print the instructions of a VTA stage's program"
    )
    parser.add_argument(
        "--timing",
        action="store_true",
        help="print the modelled cycles of every VTA stage, by layer and module",
    )
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check the bundle and print what was asked for."""
    manifest = storage.check(options.bundle)
    if options.json:
        print(json.dumps(dataclasses.asdict(manifest), indent=1))
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

    Only verified programs are timed, because others may never end or move data that does not exist.
    The timing model is that of the bundle's board, or the default one for a board that edgepipe
    does not know. Raises BundleError for a bundle without VTA stages.
    """
    from edgepipe.bundle.stages import read_program
    from vta_stages.timing.timing_model import ModuleTiming, time_program
    from vta_stages.verification.verifier import verify

    vta = [stage for stage in manifest.stages if stage.kind == "vta"]
    if not vta:
        raise BundleError(
            f"{path}: no VTA stage, so there is nothing to time",
            hint="`edgepipe inspect --operators` shows why its operators are on arm",
        )
    known = manifest.board in boards.names()
    cost = boards.load(manifest.board).timing if known else CostModel()
    for stage in vta:
        program = read_program(path, manifest, stage)
        with advise("the program is damaged: build or copy the bundle again"):
            verify(program)
        timing = time_program(program, cost)
        milliseconds = 1e3 * timing.cycles / manifest.accelerator.clock_hz
        busy = 100 * timing.gemm_steps / max(timing.cycles, 1)
        print_line(
            f"{stage.name}: {timing.cycles} cycles, {milliseconds:.2f} ms at "
            f"{manifest.accelerator.clock_hz / 1e6:.0f} MHz, GEMM steps in {busy:.1f} % of them"
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
