"""Fixtures of the ARM code generator's tests."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from edgepipe.codegen.arm import targets


@pytest.fixture(params=targets.X86_64.variants, ids=lambda variant: variant.name)
def variant(request, monkeypatch):
    """Compile x86-64 stages for this variant only.

    If the processor lacks the instructions, the test is skipped even in CI.
    """
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    found = flags[1].split() if flags else []
    for feature in request.param.cpu_features:
        if feature not in found:
            pytest.skip(f"this processor has no {feature}, which {request.param.name} needs")
    only = dataclasses.replace(targets.X86_64, variants=(request.param,))
    monkeypatch.setitem(targets.ARCHITECTURES, only.name, only)
    return request.param
