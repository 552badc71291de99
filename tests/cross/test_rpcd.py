"""edgepipe-rpcd for a board under qemu-user, with TVM's libraries for it.

Those for aarch64 are from TVM's wheels, those for armhf are built from the wheels' sources.
"""

import numpy as np
import pytest
import tvm
from needs import emulated, installed
from small_networks import build_small_bundle
from tvm import te
from tvm.support import cc

from edgepipe import rpc
from edgepipe.errors import RpcError

pytestmark = pytest.mark.sim
TARGETS = {
    "aarch64": {"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a53"},
    "armhf": {"mtriple": "arm-linux-gnueabihf", "mcpu": "cortex-a9", "mfloat-abi": "hard"},
}
PREFIXES = {"aarch64": "aarch64-linux-gnu", "armhf": "arm-linux-gnueabihf"}
MACHINES = {"aarch64": "aarch64", "armhf": "armv7l"}
BOARDS = {"aarch64": "ultra96", "armhf": "pynq-z2"}


@pytest.fixture
def session(architecture, tmp_path):
    command = [
        *emulated("edgepipe-rpcd", architecture),
        "--until-eof",
        "--allow-root",
        "--folder",
        str(tmp_path),
    ]
    with rpc.LocalServer(command) as server, rpc.connect(server.port, key=server.key) as session:
        yield session


@pytest.fixture
def library(architecture, tmp_path):
    """Return the file of a kernel that adds 1 to eight numbers."""
    compiler = f"{PREFIXES[architecture]}-gcc"
    linker = cc.cross_compiler(installed(compiler, f"g++-{PREFIXES[architecture]}"))
    a = te.placeholder((8,), "int32", name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    target = tvm.target.Target({"kind": "llvm", "mattr": ["+neon"], **TARGETS[architecture]})
    compiled = tvm.compile(te.create_prim_func([a, b]), target=target)
    compiled.export_library(str(tmp_path / "add.so"), fcompile=linker)
    return tmp_path / "add.so"


def test_a_library_for_the_board_is_uploaded_run_and_timed(session, library):
    session.remote.upload(str(library))
    module = session.remote.load_module("add.so")
    device = session.remote.cpu(0)
    x = tvm.runtime.tensor(np.arange(8, dtype=np.int32), device)
    y = tvm.runtime.tensor(np.zeros(8, np.int32), device)
    module["main"](x, y)
    np.testing.assert_array_equal(y.numpy(), np.arange(1, 9))
    assert module.time_evaluator("main", device, number=2, repeat=3)(x, y).mean > 0


def test_large_arrays_and_files_come_back_as_they_were_sent(session):
    numbers = np.random.default_rng(0).integers(-(2**62), 2**62, (3, 70_000), dtype=np.int64)
    there = tvm.runtime.tensor(numbers, session.remote.cpu(0))
    assert there.shape == numbers.shape
    np.testing.assert_array_equal(there.numpy(), numbers)
    session.remote.upload(bytearray(numbers.tobytes()), "folder/numbers")
    assert bytes(session.remote.download("folder/numbers")) == numbers.tobytes()


def test_an_exception_on_the_board_arrives_and_the_session_continues(session, architecture):
    # TVM's libraries bring their own C++ runtime in addition to the program's.
    with pytest.raises(Exception, match=r"missing\.so"):
        session.remote.load_module("missing.so")
    with pytest.raises(RpcError, match="no-bundle"):
        session.call("edgepipe.open_bundle", "no-bundle", "auto")
    assert session.info()["machine"] == MACHINES[architecture]


def test_a_bundle_runs_bit_equal_and_every_stage_is_timed(session, architecture, tmp_path):
    bundle = build_small_bundle(tmp_path, BOARDS[architecture])
    report = session.run_golden(bundle, device="simulator", repeat=2)
    assert all(stage.runs == 2 and stage.min_us > 0 for stage in report.stages)
