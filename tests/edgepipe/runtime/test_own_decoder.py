"""A user's own decoder: the same results in Python and in C, and the errors of both."""

from __future__ import annotations

import functools
import json
import platform
import re
import subprocess
from pathlib import Path

import cv2
import numpy as np
import pipeline_bundles as bundles
import pytest
from needs import built

import edgepipe
from edgepipe.description import Postprocess
from edgepipe.errors import RuntimeFailure
from edgepipe.run import RunOptions, run_bundle

pytestmark = pytest.mark.sim

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/own_decoder"
HERE = f"decoder/{platform.machine()}.so"
CORRECT = "correct the bundle's own decoder and build the bundle again"

# Both give two boxes with two points each, from the frame's five scores.
BOXES_PY = """
import edgepipe

def decode(outputs):
    s = outputs["scores"][0]
    points = [edgepipe.Point(s[0] + 3, 2), edgepipe.Point(4, 5.1, 0.25)]
    first = edgepipe.Detection(s[0] / 3 + 4, 5, 12, 13.3, 0.75, 2, points=tuple(points))
    second = edgepipe.Detection(-3, 2, 7, 100, 0.1, 9, points=tuple(points[::-1]))
    return [first, second]
"""
BOXES_C = """
int decode(const EpDecoderInput *in, EpDecoderOutput *out, char *error, uint64_t error_bytes) {
  const float *s = in->tensors[0].values;
  if (in->version != EP_DECODER_VERSION || strcmp(in->tensors[0].name, "scores") != 0) return 1;
  if (in->width != 16 || in->height != 16 || in->label_count != 5) return 2;
  if (in->tensors[0].rank != 2 || in->tensors[0].shape[1] != 5) return 3;
  EpPoint one = {s[0] + 3, 2, 1}, other = {4, 5.1F, 0.25F};
  out->boxes[0] = (EpBox){s[0] / 3 + 4, 5, 12, 13.3F, 0.75F, 2};
  out->boxes[1] = (EpBox){-3, 2, 7, 100, 0.1F, 9};
  out->points[0] = out->points[3] = one;
  out->points[1] = out->points[2] = other;
  out->box_count = 2;
  out->point_count = 4;
  return 0;
}
"""


def compiled(folder: Path, source: str) -> bytes:
    """Return a shared library of C source."""
    library = folder / "libdecoder.so"
    includes = "#include <edgepipe/decoder_function.h>\n#include <stdio.h>\n#include <string.h>\n"
    subprocess.run(
        [
            *("cc", "-shared", "-fPIC", "-Wall", "-Werror", "-I", ROOT / "cpp_runtime/include"),
            *("-x", "c", "-o", library, "-", "-lm"),
        ],
        input=includes + source,
        text=True,
        check=True,
    )
    return library.read_bytes()


def bundle_of(
    path: Path, files, *, python: str = "", library: bytes = b"", at: str = HERE, **settings
) -> Path:
    """Write a bundle with a decoder in Python, as a library, or both."""
    own = {"decoder/own.py": python.encode()} if python else {}
    own |= {at: library} if library else {}
    postprocess = Postprocess(
        kind="own",
        labels="labels.txt",
        outputs=("scores",),
        **{
            "gives": "boxes",
            "most": 2,
            "points": 2,
            "function": "decoder/own.py:decode" if python else "",
            "libraries": (at,) if library else (),
            **settings,
        },
    )
    return bundles.write_bundle(path, {**files, **own}, golden(), postprocess=postprocess)


@functools.cache
def golden() -> dict[str, np.ndarray]:
    frame = bundles.frames(1)[0]
    return {"frame": frame, "scores": bundles.make_network().run(frame)}


def lines_of(bundle: Path, picture: Path, folder: Path) -> list[dict[str, object]]:
    """Return the lines of edgepipe run and edgepipe-run for a picture, without their times."""
    options = RunOptions(bundle=bundle, source=picture, output=folder)
    run_bundle(options)
    ran = subprocess.run(
        [built("edgepipe-run"), bundle, "--input", picture, "--no-pin", "--quiet"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    both = [json.loads((folder / "results.jsonl").read_text()), json.loads(ran.stdout)]
    for line in both:
        assert line.pop("latency_ms") >= 0
    return both


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("picture") / "a.png"
    pixels = np.random.default_rng(5).integers(0, 256, (37, 50, 3)).astype(np.uint8)
    assert cv2.imwrite(str(path), pixels)
    return path


def test_the_example_gives_the_same_lines_in_python_and_in_c(tmp_path, files, picture) -> None:
    bundle = bundle_of(
        tmp_path / "net",
        files,
        python=(EXAMPLE / "decoder.py").read_text(),
        library=compiled(tmp_path, (EXAMPLE / "decoder.c").read_text()),
        gives="classes",
        most=5,
    )
    of_python, of_c = lines_of(bundle, picture, tmp_path / "out")
    assert of_python == of_c
    with edgepipe.load(bundle) as pipeline:
        scores = pipeline(picture).outputs["scores"].reshape(-1).astype(np.float64)
    shares = np.exp(scores) / np.exp(scores).sum()
    order = np.argsort(-shares, kind="stable")
    count = int(np.searchsorted(np.cumsum(shares[order]), 0.9)) + 1
    found = [(c["label_index"], c["probability"]) for c in of_c["classes"]]
    assert found == [(k, round(shares[k], 4)) for k in order[:count]]


def test_boxes_and_points_are_in_pixels_of_the_picture(tmp_path, files, picture) -> None:
    library = compiled(tmp_path, BOXES_C)
    bundle = bundle_of(tmp_path / "net", files, python=BOXES_PY, library=library)
    of_python, of_c = lines_of(bundle, picture, tmp_path / "out")
    assert of_python == of_c
    first, second = of_c["detections"]
    assert (first["label"], first["score"]) == ("cat", 0.75)
    assert first["box"][1:] == [11.6, 37.5, 30.8]  # times 37/16 and 50/16
    assert (second["label"], second["box"]) == ("9", [0.0, 4.6, 21.9, 37.0])
    assert first["points"][1] == second["points"][0] == [12.5, 11.8, 0.25]


@pytest.mark.parametrize("form", ["python", "c"])
def test_a_text_and_points_have_their_forms(tmp_path, files, form) -> None:
    def found(gives: str, python: str, c: str):
        code = {"python": f"import edgepipe\ndef decode(outputs):\n    return {python}\n"}
        if form == "c":
            code = {"library": compiled(tmp_path, function_of(c))}
        with edgepipe.load(bundle_of(tmp_path / gives, files, gives=gives, **code)) as pipeline:
            return pipeline(np.zeros((16, 16, 3), np.uint8))

    text = found(
        "text",
        "('\\u00e9', 0.5)",
        "out->text[0] = (char)0xc3; out->text[1] = (char)0xa9; out->text_bytes = 2; "
        "out->text_score = 0.5F;",
    )
    assert (text.text, text.text_score) == ("é", 0.5)
    points = found(
        "points",
        "[edgepipe.Point(1, 2.5)]",
        "out->points[0] = (EpPoint){1, 2.5F, 1}; out->point_count = 1;",
    )
    assert points.points == (edgepipe.Point(1.0, 2.5, 1.0, "ant"),)


def function_of(body: str) -> str:
    """Return a C function with this body."""
    return (
        "int decode(const EpDecoderInput *in, EpDecoderOutput *out, char *error, "
        f"uint64_t error_bytes) {{ {body} return 0; }}"
    )


TOO_MANY = "report only the best results, or raise `most` in the description and build the bundle"
FAILURES = [  # of both forms: Python's result, C's statements, the text, the hint
    (
        "[edgepipe.Detection(0, 0, 1, 1, 1, 0)] * 3",
        "out->box_count = 3;",
        "found 3 boxes, expected at most 2",
        TOO_MANY,
    ),
    (
        "[edgepipe.Detection(0, 0, 1, float('nan'), 1, 0)]",
        'out->boxes[0] = (EpBox){0, 0, 1, __builtin_nanf(""), 1, 0}; out->box_count = 1;',
        "box 0 has a value that is not a finite number",
        CORRECT,
    ),
    (
        "[edgepipe.Detection(0, 0, 1, 1, 1, -1)]",
        "out->boxes[0] = (EpBox){0, 0, 1, 1, 1, -1}; out->box_count = 1;",
        "box 0 has label_index -1, expected 0 or more",
        CORRECT,
    ),
    (
        "[edgepipe.Detection(0, 0, 1, 1, 1, 0, points=(edgepipe.Point(1, 1),)), "
        "edgepipe.Detection(0, 0, 1, 1, 1, 0)]",
        "out->box_count = 2; out->point_count = 1;",
        "found 1 points for 2 boxes, expected as many for each box",
        CORRECT,
    ),
    (
        "[edgepipe.Detection(0, 0, 1, 1, 1, 0, points=(edgepipe.Point(1, 1),) * 5)]",
        "out->box_count = 1; out->point_count = 5;",
        "found 5 points, expected at most 4",
        TOO_MANY,
    ),
]


@pytest.mark.parametrize(("python", "c", "text", "hint"), FAILURES)
def test_wrong_results_end_the_pipeline_at_their_frame(
    tmp_path, files, python, c, text, hint
) -> None:
    code = f"import edgepipe\ndef decode(outputs):\n    return {python}\n"
    library = compiled(tmp_path, function_of(c))
    for form in ({"python": code}, {"library": library}):
        bundle = bundle_of(tmp_path / next(iter(form)), files, **form)
        with edgepipe.load(bundle) as pipeline:
            frame = bundles.frames(1)[0]
            pipeline.run(frame)
            for _ in range(2):  # it stays failed
                with pytest.raises(RuntimeFailure) as caught:
                    pipeline.next(timeout_s=20)
                expected = f"postprocessing of frame 0: own decoder: {text}"
                assert str(caught.value).startswith(expected)
                assert caught.value.hint is not None
                assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("gives", "result", "text"),
    [
        ("boxes", "7", "decode returned an int, expected a list of edgepipe.Detection"),
        ("boxes", "None", "decode returned None, expected a list of edgepipe.Detection"),
        (
            "points",
            "[(1, 2)]",
            "decode returned a list that holds a tuple, expected a list of edgepipe.Point",
        ),
        ("text", "'a'", "decode returned a str, expected a tuple of a text and its score"),
        ("text", "('abc', 1.0)", "found 3 bytes of text, expected at most 2"),
        ("text", "('\\ud800', 1.0)", "the text has a surrogate, which UTF-8 lacks"),
        ("text", "('a', 1e999)", "the score of the text is not a finite number"),
        (
            "boxes",
            "[edgepipe.Detection('x', 0, 0, 0, 0, 0)]",
            "exception: ValueError: could not convert string to float: 'x'",
        ),
        ("boxes", "1 / 0", "exception: ZeroDivisionError: division by zero (own.py:3)"),
        (
            "boxes",
            "outputs['scores'].fill(0)",
            "exception: ValueError: assignment destination is read-only (own.py:3)",
        ),
    ],
)
def test_another_result_of_python_is_an_error(tmp_path, files, gives, result, text) -> None:
    code = f"import edgepipe\ndef decode(outputs):\n    return {result}\n"
    bundle = bundle_of(tmp_path / "net", files, python=code, gives=gives)
    with edgepipe.load(bundle) as pipeline:
        with pytest.raises(RuntimeFailure, match=re.escape(text)) as caught:
            pipeline(np.zeros((16, 16, 3), np.uint8))
        if "exception: ZeroDivisionError" in text:
            assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("form", ["python", "c"])
def test_a_failure_keeps_earlier_frames_and_ends_with_a_restart(tmp_path, files, form) -> None:
    if form == "python":
        counted = "count = 0\ndef decode(outputs):\n    global count\n    count += 1\n"
        fails = "    if count == 2:\n        raise OSError('full')\n    return []\n"
        code = {"python": counted + fails}
        text = "own decoder: exception: OSError: full (own.py:6)"
    else:
        body = 'static int n; if (++n == 2) { snprintf(error, error_bytes, "full"); return 1; }'
        code = {"library": compiled(tmp_path, function_of(body))}
        text = "own decoder: full"
    with edgepipe.load(bundle_of(tmp_path / "net", files, **code)) as pipeline:
        futures = pipeline.submit_many(bundles.frames(3))
        assert futures[0].result(timeout_s=20).detections == ()
        for future in futures[1:]:
            with pytest.raises(RuntimeFailure) as caught:
                future.result(timeout_s=20)
            assert str(caught.value) == f"postprocessing of frame 1: {text}"
        pipeline.stop(timeout_s=20)
        pipeline.restart(timeout_s=20)
        pipeline.run(bundles.frames(1)[0])
        assert pipeline.next(timeout_s=20).detections == ()


def test_a_code_without_a_text_is_named(tmp_path, files) -> None:
    library = compiled(tmp_path, function_of("if (in->version == 1) return 7;"))
    with edgepipe.load(bundle_of(tmp_path / "net", files, library=library)) as pipeline:
        pipeline.run(bundles.frames(1)[0])
        with pytest.raises(RuntimeFailure, match=r"frame 0: own decoder: returned 7$"):
            pipeline.next(timeout_s=20)


def test_a_failure_ends_edgepipe_run(tmp_path, files) -> None:
    body = 'snprintf(error, error_bytes, "no %s today", in->tensors[0].name); return 1;'
    bundle = bundle_of(tmp_path / "net", files, library=compiled(tmp_path, function_of(body)))
    ran = subprocess.run(
        [built("edgepipe-run"), bundle, "--golden", "--no-pin", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 1
    assert "postprocessing of frame 0: own decoder: no scores today" in ran.stderr
    assert ran.stdout == ""


BUILD_LIBRARY = (
    "build the decoder's library for this architecture, add it to `libraries` in the description "
    "and build the bundle again"
)
LINK_LIBRARY = (
    "build the decoder's library for this machine, with all that it needs linked into it, and "
    "build the bundle again"
)
NAME_SYMBOL = (
    "correct `symbol` in the description, or give the function C linkage, and build the "
    "bundle again"
)


def test_a_library_that_cannot_decode_here_is_refused(tmp_path, files) -> None:
    library = compiled(tmp_path, function_of(""))

    def refused(text: str, **settings):
        bundle = bundle_of(tmp_path / "net", files, **settings)
        with pytest.raises(RuntimeFailure) as caught:
            edgepipe.load(bundle)
        assert text in str(caught.value)
        return caught.value.hint

    other = "decoder/riscv64.so"
    text = f"own decoder: the bundle has no library for {platform.machine()}, only {other}"
    assert refused(text, library=library, at=other) == BUILD_LIBRARY
    assert refused(f"{HERE}: cannot be loaded: ", library=library[:200]) == LINK_LIBRARY
    assert refused(f"{HERE}: no function 'other'", library=library, symbol="other") == NAME_SYMBOL


def test_a_bundle_with_python_only_needs_python(tmp_path, files) -> None:
    bundle = bundle_of(tmp_path / "net", files, python="def decode(outputs):\n    return []\n")
    ran = subprocess.run(
        [built("edgepipe-run"), bundle, "--golden", "--no-pin"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 1
    assert f"the bundle has no library for {platform.machine()}\n" in ran.stderr
    assert f"hint: {BUILD_LIBRARY}" in ran.stderr
    with edgepipe.load(bundle) as pipeline:
        assert pipeline(np.zeros((16, 16, 3), np.uint8)).detections == ()


@pytest.mark.parametrize(
    ("code", "text", "hint"),
    [
        ("def decode(:", "own decoder: own.py: SyntaxError: ", CORRECT),
        ("import no_such_module", "own decoder: own.py: ModuleNotFoundError: ", CORRECT),
        (
            "def other(outputs): ...",
            "own decoder: own.py: no function 'decode'",
            "correct `function` in the description and build the bundle again",
        ),
    ],
)
def test_python_without_the_function_is_refused(tmp_path, files, code, text, hint) -> None:
    bundle = bundle_of(tmp_path / "net", files, python=code)
    with pytest.raises(RuntimeFailure, match=re.escape(text)) as caught:
        edgepipe.load(bundle)
    assert caught.value.hint == hint


def test_a_changed_decoder_is_not_run(tmp_path, files) -> None:
    ran = tmp_path / "ran"
    bundle = bundle_of(tmp_path / "net", files, python="def decode(outputs): ...")
    (bundle / "decoder/own.py").write_text(f"open({str(ran)!r}, 'w')\n")
    with pytest.raises(RuntimeFailure, match=r"decoder/own\.py has \d+ bytes, the manifest says"):
        edgepipe.load(bundle)
    assert not ran.exists()
