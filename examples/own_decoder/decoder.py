"""The classes that the network cannot rule out: as few as have 90 % of the probability together."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

import edgepipe

SHARE = 0.9


def decode(outputs: Mapping[str, NDArray[np.float32]]) -> list[edgepipe.ClassScore]:
    """Return the classes, best first. The only output is float32[1, classes], before softmax."""
    (scores,) = outputs.values()
    values = [float(score) for score in scores.reshape(-1)]
    total = sum(math.exp(value - max(values)) for value in values)
    found: list[edgepipe.ClassScore] = []
    share = 0.0
    for index in sorted(range(len(values)), key=lambda index: -values[index]):
        if share >= SHARE:
            break
        probability = math.exp(values[index] - max(values)) / total
        found.append(edgepipe.ClassScore(values[index], probability, index))
        share += probability
    return found
