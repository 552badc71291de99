"""The functions of cpp_runtime/ffi accept and refuse the same arguments here and over RPC."""

import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tvm_ffi
from needs import built, rpcd
from numpy.testing import assert_array_equal
from small_networks import build_small_bundle

from edgepipe import rpc
from edgepipe.errors import RuntimeFailure
from edgepipe.loading import load
from edgepipe.pipeline import PipelineConfig, python_stage
from edgepipe.pipeline.exported_description import DESCRIPTION_FILE
from edgepipe.runtime import library
from edgepipe.runtime.frames import read_frames

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return build_small_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def module(bundle):
    loaded = library.call("load_pipeline", str(bundle), "{}")
    yield loaded
    loaded.close(30.0, True)


def frame(seed=1):
    return np.random.default_rng(seed).integers(0, 256, (1, 16, 16, 3), dtype=np.uint8)


def failure(function, *arguments):
    with pytest.raises(library.StatusError) as caught:
        function(*arguments)
    return str(library.status_failure(str(caught.value)))


def test_the_same_calls_give_the_same_results_here_and_over_rpc(bundle, module):
    with (
        rpc.LocalServer.start(rpcd(), allow_root=True) as server,
        rpc.connect(server.port, key=server.key) as session,
    ):
        session.remote.upload(str(bundle), "net.edgepipe")
        far = session.call("edgepipe.load_pipeline", "net.edgepipe", "{}")
        found = []
        for pipeline in (module, far):
            get = pipeline.get_function
            name = json.loads(get("describe")())["inputs"][0]["name"]
            get("set_input")(name, frame(1).tobytes())
            assert bytes(get("get_input")(name)) == frame(1).tobytes()
            assert get("send")(2) == 0
            assert get("send")(4, frame(2).tobytes()) == 1
            assert get("send")(4, frame(2).tobytes()) == 1, "the same call, not another frame"
            assert get("submitted")() == 2
            get("drain")(2, 30.0, True)
            get("await_frame")(1, 30.0, True)
            output_bytes = json.loads(get("describe")())["outputs"][0]["bytes"]
            taken = [bytes(get("take")(0, 8, False, 0)) for _ in range(2)]
            assert taken[0] == taken[1], "the same call, not other frames"
            results = read_frames(taken[0], output_bytes)
            assert [(frame, id) for (frame, _, id, *_), _ in results] == [(0, 2), (1, 4)]
            assert get("take")(2, 8, False, 0) == b""
            found.append([taken[0][offset : offset + output_bytes] for _, offset in results])
            get("stop")(30.0, True)
            assert json.loads(get("statistics")())["delivered"] == 2
            with pytest.raises(Exception, match=r"status 8: .*has been stopped"):
                get("send")(6, frame(2).tobytes())
            get("await_end")(1, 30.0, True)
            for _ in range(2):
                get("restart")(1, 30.0, True)
            with pytest.raises(Exception, match="take: found frame 2, expected frame 0; "):
                get("take")(2, 8, False, 0)
            get("cancel")()
        assert found[0] == found[1]
        assert found[0][0] != found[0][1]


def test_results_go_to_rows_of_tensors_or_follow_the_header(bundle, module):
    for id in (2, 4):
        module.send(id, library.as_tensor(frame()))
    module.await_frame(1, 30.0, True)
    outputs = json.loads(module.describe())["outputs"]
    arrays = [np.zeros((3, output["bytes"]), np.uint8) for output in outputs]
    content = module.take(0, 1, False, 2, *map(library.as_tensor, arrays))
    (((_, latency_ns, *_), end),) = read_frames(content)
    assert latency_ns > 0
    assert end == len(content)
    follows = module.take(1, 1, False, 0)
    ((_, offset),) = read_frames(follows, sum(o["bytes"] for o in outputs))
    assert follows[offset:] == b"".join(array[2].tobytes() for array in arrays)
    assert not any(array[:2].any() for array in arrays)


def test_frames_with_an_owner_can_be_taken_separately_and_withdrawn_ones_are_dropped(
    bundle, module
):
    for id in (3, 5, 8):
        module.send(id, library.as_tensor(frame()))
    module.withdraw(5)
    module.withdraw(77)
    module.drain(3, 30.0, True)
    module.await_slot(0.0, True)
    output_bytes = sum(output["bytes"] for output in json.loads(module.describe())["outputs"])
    found = read_frames(module.take(0, 8, True, 0), output_bytes)
    assert [(frame, id) for (frame, _, id, *_), _ in found] == [(0, 3), (1, -1)]
    assert module.take(2, 8, True, 0) == b""
    (((_, _, id, *_), _),) = read_frames(module.take(2, 8, False, 0), output_bytes)
    assert id == 8


def test_a_read_only_array_is_an_input(bundle):
    array = np.frombuffer(frame().tobytes(), np.uint8).reshape(frame().shape)
    assert not array.flags.writeable
    with load(bundle) as pipeline:
        pipeline.run(array)
        pipeline.run(frame())
        first, second = pipeline.next(), pipeline.next()
    for name, output in first.outputs.items():
        assert_array_equal(output, second.outputs[name])


def test_values_that_are_not_arrays_are_refused(module):
    assert failure(module.send, 2, 5) == "found int, expected a tensor or bytes"
    columns = tvm_ffi.from_dlpack(np.zeros((8, 96), np.uint8).T)
    assert "a tensor of another device or with gaps" in failure(module.send, 2, columns)
    wrong = library.as_tensor(np.empty(3, np.uint8))
    assert "other tensors than one for each output" in failure(module.take, 0, 1, False, 0, wrong)
    assert "'x', expected one of" in failure(module.set_input, "x", b"")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"slot": 3}, "found 'slot', expected device, serial, pinning, slots, cores, "),
        ({"pinning": "maybe"}, 'found pinning "maybe", expected required, preferred or off'),
        ({"slots": -1}, "slots: found -1"),
        ({"cores": 1}, "cores: found 1, expected another type"),
        ({"device": "gpu"}, "gpu"),
    ],
)
def test_unknown_options_are_refused(bundle, options, text):
    with pytest.raises(RuntimeFailure) as caught:
        library.call("load_pipeline", str(bundle), json.dumps(options))
    assert text in str(caught.value)
    assert not caught.value.hint, "the text says what is expected"


def test_options_that_are_not_json_are_refused(bundle):
    with pytest.raises(RuntimeFailure, match="found 'slots=3', expected a JSON object"):
        library.call("load_pipeline", str(bundle), "slots=3")


def export_negative(folder):
    """Export a pipeline of the one stage "negative", which the caller runs."""
    config = PipelineConfig()
    ports = {"inputs": {"x": ("int32", (1, 8))}, "outputs": {"y": ("int32", (1, 8))}}
    stage = python_stage(np.negative, name="negative", **ports)
    config.inputs["data"] = (stage, "x")
    config.outputs.append((stage, 0))
    return config.build().export(folder)


@pytest.mark.parametrize("groups", [5, {"weights": 5}])
def test_damaged_parameter_groups_are_reported(tmp_path, groups):
    exported = export_negative(tmp_path / "exported")
    file = exported / DESCRIPTION_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {"parameter_groups": groups}))
    with pytest.raises(RuntimeFailure, match=r"pipeline\.json: input_names or parameter_groups: "):
        library.call("load_pipeline", str(exported), "{}", "negative", np.negative)


def test_closing_ends_the_wait_of_another_thread(bundle):
    pipeline = load(bundle)
    waiting = threading.Event()
    texts = []

    def take():
        waiting.set()
        try:
            pipeline.next(timeout_s=600)
        except RuntimeFailure as error:
            texts.append(str(error))

    thread = threading.Thread(target=take)
    thread.start()
    waiting.wait()
    time.sleep(0.05)  # most likely in next() by now; before or after, it ends as well
    pipeline.close()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert len(texts) == 1


DROPPING = """
import sys, threading, time
from edgepipe.runtime import library

at_work = threading.Event()

def negative(source, result):
    at_work.set()
    time.sleep(0.2)  # the module most likely is being dropped by now
    print("stage ended")

module = library.call("load_pipeline", sys.argv[1], "{}", "negative", negative)
module.send(2, bytes(32))
at_work.wait()
del module
print("module dropped")
"""


def test_a_module_dropped_while_a_python_stage_works_waits_for_the_stage(tmp_path):
    exported = export_negative(tmp_path / "exported")
    found = subprocess.run(
        [sys.executable, "-c", DROPPING, exported],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert found.stdout.splitlines() == ["stage ended", "module dropped"]


def test_stage_memory_outlives_what_opened_it(bundle):
    stages = library.call("open_bundle", str(bundle), "simulator")
    stages.load_golden()
    stages.run()
    stages.check_golden()
    described = json.loads(stages.describe())
    output = described["outputs"][0]
    array = library.as_array(stages.tensor(output))
    kept = array.copy()
    del stages
    assert_array_equal(array, kept)


def test_a_library_that_cannot_be_loaded_is_an_error(monkeypatch, tmp_path):
    broken = tmp_path / library.LIBRARY_NAME
    broken.write_bytes(b"no library")
    monkeypatch.setattr(library, "library_path", lambda: broken)
    with pytest.raises(RuntimeFailure, match="cannot be loaded") as caught:
        library.runtime_function.__wrapped__("remedy")
    assert caught.value.hint == "rebuild it for this machine: ninja -C build/host"


def test_a_library_that_was_not_built_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(library, "__file__", str(tmp_path / "edgepipe/runtime/library.py"))
    with pytest.raises(RuntimeFailure, match="was not found") as caught:
        library.library_path()
    assert caught.value.hint == "build it: cmake -S . -B build/host -G Ninja && ninja -C build/host"


def dynamic_section(file):
    command = ["readelf", "--wide", "--dynamic", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_library_names_tvms_and_no_place_of_it():
    text = dynamic_section(library.library_path())
    assert "[libtvm_ffi.so]" in text
    assert "libtvm_runtime" not in text
    assert "RPATH" not in text
    assert "RUNPATH" not in text


@pytest.mark.parametrize("program", ["edgepipe-run", "edgepipe-cam", "edgepipe-vta-run"])
def test_programs_for_boards_need_no_tvm(program):
    assert "tvm" not in dynamic_section(built(program))
