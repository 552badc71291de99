"""Make the networks of AMD Quark: ``python make_quark.py`` in an environment of README.md."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from pathlib import Path

import numpy as np
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantType
from quark.onnx import ModelQuantizer
from quark.onnx.quantization.config import Config, get_default_config
from torch import nn

FOLDER = Path(__file__).resolve().parent


class Net(nn.Module):
    """Convolutions, one of them depthwise, a residual, a pool and a dense layer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(16)
        self.depth = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        self.depth_norm = nn.BatchNorm2d(16)
        self.point = nn.Conv2d(16, 16, 1, bias=False)
        self.point_norm = nn.BatchNorm2d(16)
        self.dense = nn.Linear(256, 10)

    def forward(self, x):
        stem = torch.relu(self.stem_norm(self.stem(x)))
        depth = torch.nn.functional.relu6(self.depth_norm(self.depth(stem)))
        total = torch.relu(self.point_norm(self.point(depth)) + stem)
        return self.dense(torch.flatten(torch.nn.functional.max_pool2d(total, 2), 1))


class Pictures(CalibrationDataReader):
    """The calibration pictures, one by one."""

    def __init__(self, pictures):
        self._left = iter(pictures)

    def get_next(self):
        picture = next(self._left, None)
        return None if picture is None else {"image": picture}


def make(name, config):
    torch.manual_seed(5)
    net = Net()
    pictures = torch.rand(64, 1, 3, 16, 16) * 2 - 1
    with torch.no_grad():
        net.train()
        net(pictures[:, 0])
        net.eval()
    with tempfile.TemporaryDirectory() as work:
        model = Path(work) / "net.onnx"
        torch.onnx.export(
            net,
            (pictures[0],),
            str(model),
            input_names=["image"],
            output_names=["scores"],
            opset_version=17,
            dynamo=False,
        )
        quantizer = ModelQuantizer(Config(global_quant_config=config))
        with contextlib.chdir(work):  # it leaves a table of its layers in the current folder
            quantizer.quantize_model(str(model), str(FOLDER / name), Pictures(np.asarray(pictures)))


def main():
    make("quark_xint8.onnx", get_default_config("XINT8"))
    make("quark_bfp16.onnx", get_default_config("BFP16"))
    config = copy.deepcopy(get_default_config("A8W8"))
    config.per_channel = True
    config.activation_type = QuantType.QUInt8
    make("quark_a8w8_per_channel.onnx", config)


if __name__ == "__main__":
    main()
