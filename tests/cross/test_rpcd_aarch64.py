"""edgepipe-rpcd for aarch64 under qemu-user, with TVM's libraries from the board's wheels.

There is no such test for armhf: TVM publishes no wheels for it, so a PYNQ-Z2 gets no edgepipe-rpcd.
"""

import numpy as np
import pytest
import tvm
from needs import emulated, installed
from tvm import te
from tvm.support import cc

from edgepipe import rpc

pytestmark = [pytest.mark.cross, pytest.mark.sim]
TARGET = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a53", "mattr": ["+neon"]}


@pytest.fixture
def session(tmp_path):
    command = [
        *emulated("edgepipe-rpcd", "aarch64"),
        "--until-eof",
        "--allow-root",
        "--folder",
        str(tmp_path),
    ]
    with rpc.LocalServer(command) as server, rpc.connect(server.port, key=server.key) as session:
        yield session


def test_a_library_for_the_board_is_uploaded_and_run(session, tmp_path):
    linker = cc.cross_compiler(installed("aarch64-linux-gnu-gcc", "g++-aarch64-linux-gnu"))
    a = te.placeholder((8,), "int32", name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    compiled = tvm.compile(te.create_prim_func([a, b]), target=tvm.target.Target(TARGET))
    compiled.export_library(str(tmp_path / "add.so"), fcompile=linker)
    session.remote.upload(str(tmp_path / "add.so"))
    device = session.remote.cpu(0)
    x = tvm.runtime.tensor(np.arange(8, dtype=np.int32), device)
    y = tvm.runtime.tensor(np.zeros(8, np.int32), device)
    session.remote.load_module("add.so")["main"](x, y)
    np.testing.assert_array_equal(y.numpy(), np.arange(1, 9))


def test_an_exception_on_the_board_arrives_and_the_session_continues(session):
    # TVM's libraries bring their own C++ runtime in addition to the program's.
    with pytest.raises(Exception, match=r"missing\.so"):
        session.remote.load_module("missing.so")
    assert session.info()["machine"] == "aarch64"
