"""Run the float network on calibration frames and collect the statistics that the scales need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from edgepipe.errors import FAULT, MediaError, QuantizeError
from edgepipe.frontend.network import Network
from edgepipe.frontend.preprocess import Frame, Preprocess

Float = NDArray[np.float64]
BINS = 2048


class TensorStatistics:
    """Ranges of one tensor by channel and a histogram of its magnitudes, gathered frame by frame.

    ``counts[i]`` counts magnitudes in [i, i + 1) * ``bin_width``; a value beyond the last bin
    doubles the width, so one pass over the frames is enough.
    """

    def __init__(self, channels: int) -> None:
        self.low = np.full(channels, np.inf)
        self.high = np.full(channels, -np.inf)
        self.counts = np.zeros(BINS, np.int64)
        self.bin_width = 0.0
        self._sum = np.zeros(channels)
        self._elements = 0

    def add(self, value: NDArray[np.float32]) -> None:
        """Add ``value: float32[n, channels, ...]``."""
        by_channel = np.moveaxis(value, 1, 0).reshape(value.shape[1], -1)
        self.low = np.minimum(self.low, by_channel.min(axis=1))
        self.high = np.maximum(self.high, by_channel.max(axis=1))
        self._sum += by_channel.sum(axis=1, dtype=np.float64)
        self._elements += by_channel.shape[1]
        magnitude = np.abs(value).reshape(-1)
        largest = float(magnitude.max())
        if largest == 0.0:
            return
        if self.bin_width == 0.0:
            self.bin_width = largest / BINS * 1.0001
        while largest >= self.bin_width * BINS:
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([pairs, np.zeros(BINS // 2, np.int64)])
            self.bin_width *= 2
        index = (magnitude * np.float32(1 / self.bin_width)).astype(np.int32)
        self.counts += np.bincount(np.minimum(index, BINS - 1), minlength=BINS)

    @property
    def mean(self) -> Float:
        """Mean of every channel, float64[channels]."""
        return self._sum / max(self._elements, 1)

    @property
    def magnitude(self) -> Float:
        """Largest magnitude of every channel, float64[channels]."""
        magnitude: Float = np.maximum(np.abs(self.low), np.abs(self.high))
        return magnitude

    @property
    def largest(self) -> float:
        """Largest magnitude of all channels."""
        return float(self.magnitude.max())


def collect_statistics(
    network: Network,
    tensors: Sequence[str],
    frames: Iterable[Frame],
    preprocess: Preprocess,
    *,
    limit: int,
) -> tuple[dict[str, TensorStatistics], int]:
    """Run up to ``limit`` frames in float; return the statistics of ``tensors`` and the count.

    Raises ``QuantizeError`` if there is no frame, a frame does not fit the network, or a tensor
    holds a value that is not finite. Raises ``MediaError`` for a frame whose shape is not that of
    ``preprocess``.
    """
    values = {name: network.values.get(name) for name in tensors}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise QuantizeError(
            f"{network.name}: {missing[0]} is not a value of the ONNX network", hint=FAULT
        )
    session = float_session(network, [str(value) for value in values.values()])
    input_value = network.onnx_input
    channels = preprocess.frame_shape[3]
    if network.input_shape != (1, channels, preprocess.height, preprocess.width):
        raise QuantizeError(
            f"{network.name}: the preprocessing gives {channels}x{preprocess.height}x"
            f"{preprocess.width}, the network reads {'x'.join(map(str, network.input_shape[1:]))}",
            hint="correct width, height and order in the description",
        )
    statistics: dict[str, TensorStatistics] = {}
    count = 0
    for frame in frames:
        if count == limit:
            break
        if frame.shape != preprocess.frame_shape:
            raise MediaError(
                f"frame {count} is uint8{list(frame.shape)}, "
                f"expected uint8{list(preprocess.frame_shape)}"
            )
        count += 1
        try:
            results = session.run(None, {input_value: preprocess.normalise(frame)})
        except Exception as cause:  # onnxruntime's exceptions have no common base
            raise QuantizeError(
                f"{network.name}: frame {count} fails in float: {cause}",
                hint="check that onnxruntime runs the network without edgepipe",
            ) from cause
        for name, result in zip(tensors, results, strict=bool(tensors)):
            if not np.isfinite(result).all():
                raise QuantizeError(
                    f"{name}: holds values that are not finite in frame {count}",
                    hint="correct the weights, or mean, std and scale in the description",
                )
            found = statistics.setdefault(name, TensorStatistics(result.shape[1]))
            found.add(result)
    if not count:
        raise QuantizeError(
            f"{network.name}: there are no calibration frames",
            hint="give a folder of typical pictures",
            option="calibration",
            value="DIR",
        )
    return statistics, count


def float_session(network: Network, values: Sequence[str]) -> onnxruntime.InferenceSession:
    """Return onnxruntime's session of ``network``, which returns the ONNX ``values`` in this order.

    Raises ``QuantizeError`` if onnxruntime cannot run the network.
    """
    model = onnx.ModelProto()
    model.CopyFrom(network.onnx_model)
    if values:  # else the network's own outputs: a network of float operators alone
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=value) for value in values)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # else it prints errors, and tries the same once more
        )
    except Exception as cause:  # onnxruntime's exceptions have no common base
        raise QuantizeError(
            f"{network.name}: onnxruntime cannot run the network for calibration: "
            f"{str(cause).splitlines()[0]}",
            hint="a newer onnxruntime may know the operator or the ONNX version",
        ) from cause
