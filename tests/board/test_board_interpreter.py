"""``edgepipe_runtime`` on the virtual board: its wheel, in Debian's Python, on the accelerator."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import board_python
import numpy as np
import pytest
from small_networks import build_small_bundle

import edgepipe
from bench import models

pytestmark = [pytest.mark.board, pytest.mark.systems]

FOLDER = "/opt/python"
PYTHON = (
    f"env -C {FOLDER}/files PYTHONHOME={FOLDER}/usr PYTHONPATH={FOLDER}/site HOME={FOLDER}/files"
    f" LD_LIBRARY_PATH={FOLDER}/usr/lib/aarch64-linux-gnu {FOLDER}/usr/bin/python3.11"
)
ROOT = Path(__file__).parents[2]
FRAMES = 6
CAMERA = "v4l2-ctl --set-parm 10 && v4l2-ctl --set-ctrl osd_text_mode=2"


@pytest.fixture(scope="module")
def python(virtual_board, bundle_of, tmp_path_factory):
    """Return a function that runs a script on the board, in a folder with what the tests need."""
    folder = tmp_path_factory.mktemp("python")
    (folder / "site").mkdir()
    with zipfile.ZipFile(board_python.runtime_wheel(folder)) as wheel:
        wheel.extractall(folder / "site")
    work = folder / "files"
    work.mkdir()
    for name in ("board_camera.py", "board.ipynb", "cascade.py"):
        (work / name).write_bytes((ROOT / "examples" / name).read_bytes())
    build_small_bundle(work, "ultra96", 16).rename(work / "small.edgepipe")
    for name in ("nanodet", "resnet8"):
        bundle = bundle_of(name)
        (work / f"{name}.edgepipe").write_bytes(bundle.read_bytes())
    random = np.random.default_rng(7)
    np.save(work / "frames.npy", random.integers(0, 256, (FRAMES, 1, 16, 16, 3)).astype(np.uint8))
    (work / "pictures").mkdir()
    for name in ("dog", "person"):
        picture = (models.EXAMPLES / "calibration" / f"{name}.jpg").read_bytes()
        (work / "pictures" / f"{name}.jpg").write_bytes(picture)

    content = board_python.archive(board_python.files(), folder)
    receive = f"mkdir -p {FOLDER} && tar -x -C {FOLDER} && sync && df -m / | tail -n 1 >&2"
    done = virtual_board.run([receive], stdin=content, deadline_s=300)
    assert done.returncode == 0, done.stderr.decode()

    def run(script, *, deadline_s=300):
        done = virtual_board.run([f"{PYTHON} {script}"], deadline_s=deadline_s)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        return done.stdout.decode()

    run.board, run.work = virtual_board, work
    yield run
    virtual_board.run([f"rm -rf {FOLDER}"])


def code(text):
    """Return the arguments that make Python run a text."""
    quoted = text.replace("'", "'\\''")
    return f"-c '{quoted}'"


def host(work, script, *arguments):
    """Return what an example prints on this machine."""
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / script, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=work,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_frames_have_the_bits_of_the_host(python, tmp_path):
    script = """
import numpy as np, edgepipe_runtime as edgepipe
frames = np.load("frames.npy")
with edgepipe.load("small.edgepipe", device="uio", pinning="preferred") as pipeline:
    results = [result.outputs[0] for result in pipeline.map(frames)]
    print(pipeline.device)
np.save("outputs.npy", np.stack(results))
"""
    assert python(code(script)) == "uio\n"
    done = python.board.run([f"cat {FOLDER}/files/outputs.npy"])
    outputs = np.load(io.BytesIO(done.stdout))
    frames = np.load(python.work / "frames.npy")
    with edgepipe.load(python.work / "small.edgepipe", device="simulator", pinning="off") as here:
        expected = np.stack([result.outputs[0] for result in here.map(frames)])
    assert outputs.dtype == expected.dtype
    assert outputs.tobytes() == expected.tobytes()
    assert len({output.tobytes() for output in outputs}) == FRAMES


def test_a_camera_of_the_kernel_is_read_with_opencv(python):
    done = python.board.run([CAMERA])
    assert done.returncode == 0, done.stderr.decode()
    said = python("board_camera.py resnet8.edgepipe --camera 0 --frames 5")
    assert re.findall(r"^frame (\d+): \S+ \d\.\d\d$", said, re.M) == ["0", "1", "2", "3", "4"], said
    assert re.search(r"frames/s on uio$", said), said


def test_a_cascade_of_two_networks_sees_what_it_sees_on_the_host(python):
    arguments = ("nanodet.edgepipe", "resnet8.edgepipe", "pictures", "--label", "dog")
    arguments += ("--label", "person")
    said = python(f"cascade.py {' '.join(arguments)} --device uio:shared")
    assert re.search(r"^picture 0: dog 0\.\d\d at \d+,\d+: .* \d\.\d\d$", said, re.M), said
    assert said == host(python.work, "cascade.py", *arguments, "--device", "simulator")


def test_the_notebooks_cells_run(python):
    script = """
import json
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in json.load(open("board.ipynb"))["cells"]:
    if cell["cell_type"] == "code":
        shell.run_cell("".join(cell["source"])).raise_error()
"""
    done = python.board.run([CAMERA])
    assert done.returncode == 0, done.stderr.decode()
    said = python(code(script))
    assert "nanodet_g_coco_416 on uio" in said
    assert re.search(r"^dog 0\.\d\d at \d+,\d+$", said, re.M), said
    assert len(re.findall(r"^frame \d+: \d+ boxes, \d+ ms$", said, re.M)) == 5
    assert said.count("<IPython.core.display.Image object>") == 2


def test_buffers_of_pynq_in_the_boards_memory_are_used_without_a_copy(python):
    """pynq itself, with its class of buffers; it finds no device, for lack of XRT."""
    script = """
import mmap, warnings
warnings.simplefilter("ignore")
import setuptools  # brings distutils, which pynq needs and Debian leaves out
import numpy as np, pynq, edgepipe_runtime as edgepipe
from pynq.buffer import PynqBuffer
try:
    pynq.allocate((4,), "u1")
except RuntimeError as error:
    print(error)
class Device:
    def flush(self, *arguments): pass
    invalidate = flush
frames = np.load("frames.npy")
memory = mmap.mmap(-1, 4 * mmap.PAGESIZE)
buffers = [
    PynqBuffer(
        frames[0].shape, "u1", buffer=memory, offset=slot * mmap.PAGESIZE, device=Device()
    )
    for slot in range(4)
]
with edgepipe.load("small.edgepipe", device="uio", buffers={"frame": buffers}) as pipeline:
    name = pipeline.inputs[0].name
    for number, frame in enumerate(frames):
        buffer = buffers[number % pipeline.slots]
        buffer[:] = frame
        buffer.flush()
        assert pipeline.next_inputs()[name].ctypes.data == buffer.virtual_address
        pipeline.run(buffer)
        print(pipeline.next().outputs[0].tobytes().hex())
"""
    with edgepipe.load(python.work / "small.edgepipe", device="simulator", pinning="off") as here:
        name = here.inputs[0].name
        frames = np.load(python.work / "frames.npy")
        expected = [result.outputs[0].tobytes().hex() for result in here.map(frames)]
    none, *outputs = python(code(script.replace('{"frame"', f'{{"{name}"'))).splitlines()
    assert none == "No Devices Found"
    assert outputs == expected
