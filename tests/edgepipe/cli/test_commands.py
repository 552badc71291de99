"""Commands import what they need and no more: help needs no TVM, and boards are served without."""

import json
import os
import re
import subprocess
import sys

import cv2
import numpy as np
import pytest
from small_networks import build_small_bundle

from edgepipe import boards
from edgepipe.cli.commands import COMMANDS
from edgepipe.cli.main import main, make_parser
from edgepipe.errors import BoardError

BUILDERS = {"tvm", "tvm_ffi", "onnx", "onnxruntime"}
SERVES_BOARDS = ("bitstream", "boards", "deploy", "doctor", "logs", "sign", "top", "verify")
SERVES_BOARDS += ("virtual-board",)
LISTS_MODELS = """
import json, sys
from edgepipe.cli.main import main
from edgepipe.zoo import getting
main(["models", "list"])
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""
PRINT_IMPORTED = """
import json, sys
from edgepipe.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""
IMPORT_WITHOUT_BUILDERS = """
import importlib, pkgutil, sys
for name in ("tvm", "tvm_ffi", "onnx", "onnxruntime"):
    sys.modules[name] = None  # importing it fails
for name in ("bitstream", "bundle", "deploy", "doctor", "top", "virtual_board"):
    package = importlib.import_module(f"edgepipe.{name}")
    for module in pkgutil.walk_packages(package.__path__, f"edgepipe.{name}."):
        importlib.import_module(module.name)
"""

# What `pip install edgepipe` without [build] leaves out.
RUN_WITHOUT_BUILDERS = """
import sys
for name in ("tvm", "onnx", "onnxruntime"):
    sys.modules[name] = None  # importing it fails
from edgepipe.cli.main import main
print("exit code", main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return build_small_bundle(tmp_path_factory.mktemp("bundle"))


def without_builders(*arguments):
    """Run a command line as if neither TVM nor ONNX were installed."""
    command = [sys.executable, "-c", RUN_WITHOUT_BUILDERS, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def imported_by(*arguments):
    """Return the top-level packages that a command line imports."""
    command = [sys.executable, "-c", PRINT_IMPORTED, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(ran.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["nonsense"], []])
def test_help_and_version_import_neither_numpy_nor_opencv_nor_tvm(arguments):
    assert not imported_by(*arguments) & {*BUILDERS, "numpy", "cv2"}


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_help_and_version_take_less_than_a_third_of_a_second(argument):
    # Seconds of the processor, because other tests run beside this one; the best of five.
    assert min(processor_seconds(argument) for _ in range(5)) < 0.3


def processor_seconds(*arguments):
    command = [sys.executable, "-m", "edgepipe", *arguments]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("command", SERVES_BOARDS)
def test_what_serves_boards_is_imported_without_tvm_and_onnx(command):
    assert not imported_by(command, "--help") & BUILDERS


def test_the_networks_of_the_zoo_are_listed_without_numpy_opencv_and_tvm():
    command = [sys.executable, "-c", LISTS_MODELS]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert not set(json.loads(ran.stderr)) & {*BUILDERS, "numpy", "cv2"}


def test_all_modules_that_serve_boards_are_there_without_tvm_and_onnx():
    command = [sys.executable, "-c", IMPORT_WITHOUT_BUILDERS]
    subprocess.run(command, timeout=120, check=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "BUNDLE", "--operators"],
        ["inspect", "BUNDLE", "--timing"],
        ["report", "BUNDLE", "--format", "json"],
        ["run", "BUNDLE", "--input", "PICTURE", "--output", "RESULTS"],
        ["bench", "BUNDLE", "--frames", "4"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_a_bundle_is_inspected_reported_run_and_measured_without_tvm(bundle, tmp_path, arguments):
    picture = tmp_path / "picture.png"
    cv2.imwrite(str(picture), np.zeros((16, 16, 3), np.uint8))
    files = {"BUNDLE": bundle, "PICTURE": picture, "RESULTS": tmp_path / "results"}
    ran = without_builders(*(files.get(word, word) for word in arguments))
    assert ran.stdout.splitlines()[-1] == "exit code 0", ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["build", "net.onnx", "--board", "ultra96", "--calib", "pictures", "-o", "net.edgepipe"],
        ["init", "net.onnx"],
        ["inspect", "net.onnx"],
        ["accuracy", "net.edgepipe", "--network", "net.onnx", "--data", "pictures"],
        ["rpc", "open", "--host", "nowhere"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_what_needs_tvm_says_what_to_install(arguments):
    ran = without_builders(*arguments)
    assert ran.stdout == "exit code 1\n"
    assert re.fullmatch(
        "edgepipe: error: the Python package (tvm|onnx|onnxruntime) is not installed; it is needed "
        "to read and compile networks, and for TVM RPC\n"
        'hint: install edgepipe with what builds: pip install "edgepipe\\[build\\]", or in the '
        'repository pip install "\\.\\[build\\]"\n',
        ran.stderr,
    ), ran.stderr


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (
            ["accuracy", "net.edgepipe"],
            "--data: pictures to measure with: a folder, a video, or an .npz file of frames",
        ),
        (
            ["build", "net.onnx", "-o", "x"],
            "--board: name of a known board, or a board's .toml file",
        ),
        (["inspect"], "FILE: bundle (folder or archive) or network (*.onnx)"),
        (["verify", "x"], "--allowed-signers: signers to trust, as OpenSSH lists them"),
    ],
)
def test_a_missing_argument_is_explained(capsys, arguments, hint):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("arguments", "wrong", "right"),
    [
        (["build", "net.onnx", "--bord", "ultra96", "-o", "x"], "--bord", "--board"),
        (["build", "net.onnx", "--bord=ultra96", "-o", "x"], "--bord", "--board"),
        (["build", "net.onnx", "-board", "ultra96", "-o", "x"], "-board", "--board"),
        (["build", "net.onnx", "--board", "ultra96", "--ouput", "x"], "--ouput", "--output"),
        (["run", "net.edgepipe", "--inptu", "clip.mp4"], "--inptu", "--input"),
        (["accuracy", "net.edgepipe", "--dta", "pictures"], "--dta", "--data"),
        (
            ["verify", "net.edgepipe", "--alowed-signers", "f"],
            "--alowed-signers",
            "--allowed-signers",
        ),
        (["bench", "--comprae", "a.json", "b.json"], "--comprae", "--compare"),
        (["inspect", "--jsno"], "--jsno", "--json"),
        (["--vesion"], "--vesion", "--version"),
    ],
)
def test_a_required_option_that_is_misspelt_is_not_called_missing(capsys, arguments, wrong, right):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert f"error: unrecognized arguments: {wrong}" in error
    assert error.endswith(f"\nhint: did you mean {right}?\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["build", "net.onnx", "-o", "x", "--xyzzy"],
        ["build", "net.onnx", "-ox", "--calib", "p"],
        ["build", "net.onnx", "-o", "x", "--", "--bord"],
    ],
)
def test_what_is_missing_is_named_if_no_option_is_misspelt(capsys, arguments):
    with pytest.raises(SystemExit):
        main(arguments)
    assert "error: the following arguments are required: --board" in capsys.readouterr().err


@pytest.mark.parametrize("command", [name.replace("_", "-") for name in COMMANDS])
def test_every_option_of_a_command_is_found_by_a_slip_of_it(command):
    (subcommands,) = (a for a in make_parser(command)._actions if isinstance(a.choices, dict))
    parser = subcommands.choices[command]
    options = [name for name in parser._option_string_actions if len(name) > 6]
    for option in options:
        slip = option[:-3] + option[-2:]
        assert parser._near_option(slip) == option or slip in options


@pytest.mark.parametrize(
    "arguments", [["bench"], ["inspect", "x", "--board"], ["build", "x", "--board", "y", "--place"]]
)
def test_an_option_that_exists_is_not_suggested_for_itself(capsys, arguments):
    with pytest.raises(SystemExit):
        main(arguments)
    assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["biuld"], "hint: did you mean build?\n"),
        (["virtualboard", "up"], "hint: did you mean virtual-board?\n"),
        (["rpc", "opne"], "hint: did you mean open?\n"),
        (["top", "--jsn"], "hint: did you mean --json?\n"),
        (["top", "--jsn=1"], "hint: did you mean --json?\n"),
        (["top", "-json"], "hint: did you mean --json?\n"),
        (
            ["build", "net.onnx", "--board", "ultra96", "-o", "x", "--objective", "latncy"],
            "hint: did you mean latency?\n",
        ),
        (["boards", "--xyzzy"], "edgepipe boards: error: unrecognized arguments: --xyzzy\n"),
        (["boards", "more", "words"], "boards: error: unrecognized arguments: more words\n"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest_one(capsys, arguments, error):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(error)


def test_a_mistyped_board_is_answered_with_the_nearest_one():
    with pytest.raises(BoardError) as failed:
        boards.load("ultra69")
    assert failed.value.hint.startswith("did you mean ultra96? known boards: ")


def test_every_command_has_a_line_in_the_help():
    command = [sys.executable, "-m", "edgepipe", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    for name, summary in COMMANDS.items():
        assert name.replace("_", "-") in ran.stdout
        assert summary in " ".join(ran.stdout.split())
