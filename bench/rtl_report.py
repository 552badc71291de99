"""What accelerators take of an FPGA, module by module, and their longest paths.

``python -m bench.rtl_report [ACCELERATOR:FPGA...]``. yosys synthesises every module on its own,
without moving logic across borders. Nothing is placed: a real tool shares LUTs, and takes some for
routing.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from bench.figures import Figure, publish
from bench.rtl_netlist import RESOURCES, Modules, Resources, cells_of, longest_paths, resources_of
from bench.rtl_record import BUDGETS, LEVELS, RECORD, record, recorded, still_of, write_page
from bench.rtl_synthesis import FPGAS, Target, synthesise
from edgepipe.report.table import format_table
from vta_rtl.verilog import TOP_NAME


def module_name(name: str) -> str:
    """Return the module's place in the core: ``edgepipe_vta.core.device`` is ``device``."""
    return name.removeprefix(f"{TOP_NAME}.core").removeprefix(".") or "core"


def table(modules: Modules) -> list[list[str]]:
    """Return a row for each module: its name, what it and all in it take, its longest path.

    A path belongs to the module in which it ends. The row of a module without one has a dash.
    """
    paths = longest_paths(modules, TOP_NAME)
    rows = []
    for name in sorted(modules.keys() - {TOP_NAME}):
        inside = [p for end, p in paths.items() if end == name or end.startswith(f"{name}.")]
        longest = max(inside, key=lambda path: path.levels, default=None)
        found = resources_of(cells_of(modules, name))
        cells = [f"{found[kind]:g}" for kind in RESOURCES]
        where = [str(longest.levels), module_name(longest.first)] if longest else ["-", "-"]
        rows.append([module_name(name), *cells, *where])
    return rows


def measured(modules: Modules) -> Resources:
    """Return what the whole core takes, and the levels of its longest path."""
    paths = longest_paths(modules, TOP_NAME).values()
    levels = max((path.levels for path in paths), default=0)
    return {**resources_of(cells_of(modules, TOP_NAME)), LEVELS: levels}


def figures(target: Target, found: Resources) -> list[Figure]:
    """Return what :func:`measured` found on an FPGA, with the budgets."""
    has, title = FPGAS[target[1]].has, " on ".join(target)
    return [
        *(
            Figure(
                name=f"{title}: {kind}",
                value=found[kind],
                unit=f"of {has[kind]:g}",
                at_most=BUDGETS[target].get(kind, has[kind]),
                source="yosys",
            )
            for kind in RESOURCES
        ),
        Figure(
            name=f"{title}: longest path",
            value=found[LEVELS],
            unit="levels of logic",
            source="yosys",
        ),
    ]


def report(target: Target, modules: Modules) -> None:
    """Print the modules on an FPGA."""
    accelerator, fpga = target
    print(f"\nThe {accelerator} accelerator on {fpga}, each module with what is in it. LEVELS are")
    print(
        "LUTs and carry chains in a row on the longest path that ends in the module, FROM where it"
    )
    print("begins.")
    print(format_table(["module", *RESOURCES, "LEVELS", "FROM"], table(modules)))


def main() -> int:
    """Report on the accelerators and FPGAs named, or on all of them."""
    targets = {":".join(target): target for target in BUDGETS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="ACCELERATOR:FPGA", help=", ".join(targets))
    parser.add_argument("--jobs", type=int, help="yosys processes at once (default: one a core)")
    parser.add_argument(
        "--record",
        action="store_true",
        help=f"write {RECORD.name}, which tests check, and the table of vta_rtl/README.md; a "
        "circuit that is as recorded is not synthesised",
    )
    options = parser.parse_args()
    names = options.targets or list(targets)
    for name in names:
        if name not in targets:
            parser.error(f"unknown target {name!r}, expected one of {', '.join(targets)}")
    chosen = [targets[name] for name in names]
    known = {t: e["figures"] for t, e in recorded().items() if options.record and still_of(t, e)}
    fresh = [target for target in chosen if target not in known]
    try:
        with ThreadPoolExecutor(options.jobs or os.cpu_count()) as pool:
            for target, modules in zip(fresh, pool.map(synthesise, fresh), strict=True):
                report(target, modules)
                known[target] = measured(modules)
                if options.record:
                    record(target, known[target])
    except ValueError as error:
        sys.exit(f"rtl-report: {error}")
    if options.record:
        for target in chosen:
            record(target, known[target])
        write_page()
    return publish("rtl-report", [f for target in chosen for f in figures(target, known[target])])


if __name__ == "__main__":
    sys.exit(main())
