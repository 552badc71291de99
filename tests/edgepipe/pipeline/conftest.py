"""Pipelines that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pipeline_stages import Start

from edgepipe.pipeline import PipelineConfig
from edgepipe.runtime.pipeline import Pipeline


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a config's pipeline, closed after the test."""
    with ExitStack() as stack:

        def begin(config: PipelineConfig, **options: Any) -> Pipeline:
            return stack.enter_context(config.build().start(**options))

        yield begin
