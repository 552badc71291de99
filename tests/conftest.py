"""Fixtures that every test may use: where the networks and data sets are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from needs import lacking
from numpy.typing import NDArray

from bench import models


@pytest.fixture(scope="session")
def model_path() -> Callable[[str], Path]:
    """Return the path of a network by name: in examples/, EDGEPIPE_MODELS or ../shared/models."""

    def find(name: str) -> Path:
        try:
            return models.model(name)
        except models.LackingError as error:
            lacking(error)

    return find


@pytest.fixture(scope="session")
def fashion_mnist() -> Callable[[str], tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    """Return ("train" or "t10k") frames uint8[n, 28, 28, 1] and labels uint8[n]."""

    def read(part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        try:
            return models.fashion_mnist(part)
        except models.LackingError as error:
            lacking(error)

    return read
