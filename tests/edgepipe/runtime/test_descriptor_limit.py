"""A pipeline in a process that may open few files more: one error that says so, and no leak."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pipeline_bundles as bundles
import pytest

import edgepipe
from edgepipe.errors import EdgepipeError

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module", params=["tiny", "tiny.edgepipe"], ids=["folder", "archive"])
def bundle(request, tmp_path_factory, files):
    return bundles.write_bundle(tmp_path_factory.mktemp("few") / request.param, files, {})


def descriptors() -> set[int]:
    with os.scandir("/proc/self/fd") as entries:
        found = {int(entry.name) for entry in entries}
    return {number for number in found if Path(f"/proc/self/fd/{number}").is_symlink()}


@contextlib.contextmanager
def spare_descriptors(count: int) -> Iterator[int]:
    """Let this process open ``count`` files more; yield the limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(descriptors()) + 1 + count
    gaps = [os.dup(0) for _ in range(limit - count - len(descriptors()))]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for number in gaps:
            os.close(number)


def test_a_pipeline_at_the_limit_of_descriptors(bundle):
    edgepipe.load(bundle).close()  # what is opened only once is open now
    opened, threads = descriptors(), threading.active_count()
    for spare in range(100):
        with spare_descriptors(spare) as limit:
            try:
                edgepipe.load(bundle).close()
            except EdgepipeError as error:
                failure = error
            else:
                break
        told = f"too many open files, this process may have {limit}"
        assert told in str(failure), (spare, failure)
        assert failure.hint == "raise the limit: ulimit -n, or LimitNOFILE= of a unit", spare
        # Threads and files of earlier tests may still be going away.
        assert descriptors() <= opened, spare
        assert threading.active_count() <= threads, spare
    assert 2 < spare < 99
