"""A stage's threads in the manifest, and manifests without them."""

import dataclasses

import pytest

from edgepipe import schema
from edgepipe.bundle.manifest import Stage
from edgepipe.errors import BundleError

STAGE = Stage(
    name="arm0",
    kind="arm",
    folder="stages/0_arm",
    inputs=("frame",),
    outputs=("features",),
    cores=(1, 2, 3),
    threads=3,
)


def read(**changes):
    table = dataclasses.asdict(STAGE) | changes
    table = {key: value for key, value in table.items() if value is not None}
    table |= {key: list(table[key]) for key in ("inputs", "outputs", "cores")}
    return schema.from_table(Stage, table, "manifest.json", BundleError)


def test_a_stages_threads_are_read_as_they_were_written():
    assert read() == STAGE


def test_a_stage_of_an_older_bundle_has_one_thread_on_any_of_its_cores():
    assert read(threads=None) == dataclasses.replace(STAGE, threads=1)


@pytest.mark.parametrize("threads", [0, 4])
def test_every_thread_needs_a_core(threads):
    with pytest.raises(BundleError, match=f"stage arm0: {threads} threads on 3 cores") as error:
        read(threads=threads)
    assert error.value.hint == "build the bundle again"


def test_a_core_that_is_named_twice_counts_once():
    with pytest.raises(BundleError, match="stage arm0: 3 threads on 2 cores"):
        read(cores=[1, 2, 1])
