"""Round weights so that a layer's results change least, not so that each weight does.

With rounding errors ``e`` of a channel's weights and the second moments ``H`` of what they are
multiplied with, the mean squared error of the channel's results is ``e H e``. The Cholesky factor
``R`` (upper triangular, ``H = R R^T``) turns it into a sum of squares

    sum over j of R[j, j]**2 * (e[j] + sum over i < j of R[i, j] * e[i] / R[j, j])**2

so that weights rounded in this order can each make up for those before it. (Babai's nearest plane
method, "On Lovász' lattice reduction and the nearest lattice point problem", 1986; as an order of
rounding the weights of a network: Frantar et al., "GPTQ", 2022.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int64 = NDArray[np.int64]

RULES = ("nearest", "reconstruct")
"""How weights may be rounded: each to the nearest integer, or with what the layer reads."""

_BLOCK = 128  # columns between two products of matrices
# Of the mean of the diagonal: how much each input is taken to vary on its own. Without it, pictures
# that are few and alike would let weights make up for each other that must not.
_DAMPING = 0.1


def reconstruct(scaled: Float, nearest: Int64, moments: Float) -> Int64:
    """Return integers for ``scaled: float64[channels, n]`` that change the channels' results least.

    ``nearest: int64[channels, n]`` are the weights that plain rounding gives, already clipped;
    ``moments: float64[n, n]`` are the mean products of what two weights are multiplied with. A
    channel keeps its nearest integers unless others have the smaller error. Results are within the
    range of int8 that ``nearest`` uses for the channel, or [-127, 127].
    """
    used = np.diag(moments) > 0
    diagonal = np.diag(moments)[used]
    if not diagonal.size:
        return nearest
    order = np.flatnonzero(used)[np.argsort(-diagonal, kind="stable")]
    damped = moments[np.ix_(order, order)] + np.eye(len(order)) * (_DAMPING * diagonal.mean())
    found = nearest.copy()
    found[:, order] = _nearest_plane(
        scaled[:, order], nearest.min(axis=1), nearest.max(axis=1), damped
    )
    better = _squared_error(found - scaled, moments) < _squared_error(nearest - scaled, moments)
    result: Int64 = np.where(better[:, None], found, nearest)
    return result


def _nearest_plane(scaled: Float, least: Int64, most: Int64, moments: Float) -> Int64:
    """Round columns in order, each with regard to the errors of those before it."""
    # numpy's factor is lower triangular; that of the reversed matrix, reversed, is upper.
    factor = np.linalg.cholesky(moments[::-1, ::-1])[::-1, ::-1]
    factor = factor / np.diag(factor)
    low = np.minimum(least, -127)
    high = np.maximum(most, 127)
    count = scaled.shape[1]
    errors = np.zeros_like(scaled)
    carried = np.zeros_like(scaled)  # sum over i < j, from blocks that are done
    for begin in range(0, count, _BLOCK):
        end = min(begin + _BLOCK, count)
        for j in range(begin, end):
            before = carried[:, j] + errors[:, begin:j] @ factor[begin:j, j]
            rounded = np.clip(np.rint(scaled[:, j] - before), low, high)
            errors[:, j] = rounded - scaled[:, j]
        carried[:, end:] += errors[:, begin:end] @ factor[begin:end, end:]
    return np.rint(scaled + errors).astype(np.int64)


def _squared_error(errors: Float, moments: Float) -> Float:
    """Return the mean squared error of every channel's result, float64[channels]."""
    found: Float = np.einsum("cn,cn->c", errors @ moments, errors)
    return found
