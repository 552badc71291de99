"""A forked child with its parent's pipelines: it ends, and leaves them to the parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pipeline_stages as made
import pytest
from levels import every
from needs import rpcd
from small_networks import build_small_bundle

ROOT = Path(__file__).resolve().parents[3]

# Frames flow in the parent before and after; it has `built`, `pipeline` and `waiting`.
PROGRAM = """
import gc, multiprocessing, os, sys, threading, time
import numpy as np
import pipeline_stages as made
from edgepipe.errors import RuntimeFailure

built = made.chain(made.scaled_stage(), made.adder()).build()
pipeline = built.start()
pipeline.run(made.vector(1))
pipeline.next()
waiting = threading.Thread(target=lambda: pipeline.next(timeout_s=60))
waiting.start()  # holds locks while the process forks
time.sleep(0.1)


def child():
{child}

{fork}
assert built.folder.is_dir(), "the child has removed the parent's folder"
assert any(built.folder.iterdir())
pipeline.run(made.vector(5))
waiting.join()
pipeline.run(made.vector(5))
assert (pipeline.next().outputs[0] == 2 * made.vector(5) + 1).all()
pipeline.close()
print("parent done")
"""

OS_FORK = """
number = os.fork()
if number == 0:
    child()
    sys.exit(0)  # in order: the interpreter drops everything
end = time.monotonic() + 30
while (found := os.waitpid(number, os.WNOHANG)) == (0, 0):
    assert time.monotonic() < end, "the child hangs"
    time.sleep(0.01)
assert os.waitstatus_to_exitcode(found[1]) == 0, found
"""

MULTIPROCESSING = """
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join(30)
assert process.exitcode == 0, process.exitcode
"""

CHILDREN = {
    "exits": "pass",
    "drops": "global pipeline, built; del pipeline, built; gc.collect()",
    "closes": "pipeline.close(); pipeline.close()",
    "calls": """
for call in (
    lambda: pipeline.run(made.vector(0)), pipeline.next, pipeline.statistics, pipeline.cancel,
    lambda: pipeline.submit(made.vector(0)), pipeline.restart, pipeline.stop, pipeline.drain,
    pipeline.get_output, lambda: pipeline.set_input("data", made.vector(0)),
):
    try:
        call()
    except RuntimeFailure as error:
        assert f"pipeline: belongs to process {os.getppid()}" in str(error), error
    else:
        raise AssertionError(call)
""",
    "starts its own": """
with built.start() as own:
    own.run(made.vector(2))
    assert (own.next().outputs[0] == 2 * made.vector(2) + 1).all()
""",
}


def run(program: str, *arguments: str) -> None:
    paths = [str(ROOT), str(ROOT / "tests"), str(Path(made.__file__).parent)]
    found = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (found.returncode, found.stdout) == (0, "parent done\n"), found.stderr


@pytest.mark.parametrize("child", every(2, CHILDREN))
def test_a_forked_child_ends_and_the_parent_continues(child: str) -> None:
    body = textwrap.indent(CHILDREN[child].strip(), "    ")
    run(PROGRAM.format(child=body, fork=OS_FORK))


@pytest.mark.parametrize("child", ["exits", "closes"])
def test_a_child_of_multiprocessing_ends_and_the_parent_continues(child: str) -> None:
    run(PROGRAM.format(child=f"    {CHILDREN[child]}", fork=MULTIPROCESSING))


BUNDLE = """
import os, sys, time
import numpy as np
import edgepipe

pipeline = edgepipe.load(sys.argv[1])
frame = np.zeros((1, 16, 16, 3), np.uint8)
before = pipeline.submit(frame).result().outputs[0]
{fork}
assert (pipeline.submit(frame).result().outputs[0] == before).all()
pipeline.close()
print("parent done")
"""


@pytest.mark.sim
def test_a_child_of_a_process_that_runs_a_bundle_ends(tmp_path: Path) -> None:
    bundle = build_small_bundle(tmp_path)
    run(BUNDLE.format(fork=OS_FORK.replace("child()", "pipeline.close()")), str(bundle))


SERVED = """
import os, sys, time
import pipeline_stages as made
from edgepipe import rpc
from edgepipe.pipeline import RpcServer, load_on, remote_stage

with (
    rpc.LocalServer.start(allow_root=True) as first,
    rpc.LocalServer.start(allow_root=True) as second,
):
    far = remote_stage(made.scaled_stage(), RpcServer(port=first.port, key=first.key))
    pipeline = made.chain(far).build().start()
    session = rpc.connect(second.port, key=second.key)
    built = made.chain(made.scaled_stage()).build()
    served = load_on(session, built.folder)

    def check():
        for each in (pipeline, served):
            each.run(made.vector(3))
            assert (each.next().outputs[0] == 2 * made.vector(3)).all()

    check()
    {fork}
    check()
    for each in (served, pipeline, session):
        each.close()
print("parent done")
"""


@pytest.mark.sim
@pytest.mark.parametrize("child", ["pass", "served.close(); pipeline.close(); session.close()"])
def test_a_child_leaves_stages_and_pipelines_on_servers_to_its_parent(child: str) -> None:
    rpcd()
    fork = textwrap.indent(OS_FORK.replace("child()", child), "    ").strip()
    run(SERVED.format(fork=fork))


KILLED = """
import sys
import pipeline_stages as made

built = made.chain(made.scaled_stage(), made.adder()).build()
pipeline = built.start()
pipeline.run(made.vector(1))
pipeline.next()
print(built.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_process_leaves_no_temporary_folder(
    number: signal.Signals, tmp_path: Path
) -> None:
    paths = [str(ROOT), str(Path(made.__file__).parent)]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    assert (folder / "pipeline.json").is_file()
    assert tmp_path in folder.parents
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number
    end = time.monotonic() + 20
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.005)
    assert list(tmp_path.iterdir()) == []
