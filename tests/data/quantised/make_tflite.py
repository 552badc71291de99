"""Make the networks of TensorFlow Lite: ``python make_tflite.py`` as README.md says."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

FOLDER = Path(__file__).resolve().parent


def network():
    """Return a Keras model: convolutions, one of them depthwise, a residual, a pool, a dense."""
    layers = tf.keras.layers

    def block(x, kind, *arguments, **options):
        x = kind(*arguments, padding="same", use_bias=False, **options)(x)
        return layers.BatchNormalization()(x)

    image = layers.Input((16, 16, 3), batch_size=1, name="image")
    stem = layers.ReLU(6.0)(block(image, layers.Conv2D, 16, 3, strides=2))
    depth = layers.ReLU(6.0)(block(stem, layers.DepthwiseConv2D, 3))
    total = layers.ReLU()(layers.Add()([block(depth, layers.Conv2D, 16, 1), stem]))
    pooled = layers.AveragePooling2D(2)(total)
    scores = layers.Dense(10)(layers.Flatten()(layers.MaxPooling2D(2)(pooled)))
    return tf.keras.Model(image, scores)


def make(name, kind, *, per_channel):
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(5)
    pictures = np.random.default_rng(5).uniform(-1, 1, (64, 1, 16, 16, 3)).astype(np.float32)
    model = network()
    norms = [x for x in model.layers if isinstance(x, tf.keras.layers.BatchNormalization)]
    for norm in norms:  # not those of a network that has not been trained
        shape = norm.gamma.shape
        norm.gamma.assign(tf.random.uniform(shape, 0.5, 2.0))
        norm.beta.assign(tf.random.normal(shape))
        norm.moving_mean.assign(tf.random.normal(shape) * 0.1)
        norm.moving_variance.assign(tf.random.uniform(shape, 0.2, 1.0))
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([picture] for picture in pictures)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = kind
    converter._experimental_disable_per_channel = not per_channel
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "net.tflite").write_bytes(converter.convert())
        # The command of docs/guides/own-network.md.
        command = ["-m", "tf2onnx.convert", "--tflite", "net.tflite", "--opset", "13"]
        command += ["--output", str(FOLDER / name)]
        subprocess.run([sys.executable, *command], cwd=work, check=True)


def main():
    make("tflite_int8.onnx", tf.int8, per_channel=True)
    make("tflite_uint8_per_tensor.onnx", tf.uint8, per_channel=False)


if __name__ == "__main__":
    main()
