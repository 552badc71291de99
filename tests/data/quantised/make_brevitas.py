"""Make the networks of Brevitas: ``python make_brevitas.py`` in an environment of README.md."""

from __future__ import annotations

from pathlib import Path

import brevitas.nn as qnn
import torch
from brevitas import quant
from brevitas.export import export_onnx_qcdq, export_qonnx
from brevitas.graph.calibrate import bias_correction_mode, calibration_mode
from torch import nn

FOLDER = Path(__file__).resolve().parent


class Net(nn.Module):
    """Convolutions, one of them depthwise, a residual, a pool and a dense layer.

    Without batch normalisation it is a network in whose convolutions that has been folded.
    """

    def __init__(self, weight, signed, unsigned, *, normalised):
        super().__init__()

        def conv(inputs, outputs, kernel, **options):
            bias = {} if normalised else {"bias": True, "bias_quant": quant.Int32Bias}
            return nn.Sequential(
                qnn.QuantConv2d(
                    *(inputs, outputs, kernel),
                    **{"bias": False, **bias, **options},
                    weight_quant=weight,
                    return_quant_tensor=not normalised,
                ),
                nn.BatchNorm2d(outputs) if normalised else nn.Identity(),
            )

        def relu():
            return qnn.QuantReLU(act_quant=unsigned, return_quant_tensor=True)

        self.image = qnn.QuantIdentity(act_quant=signed, return_quant_tensor=True)
        self.stem = nn.Sequential(conv(3, 16, 3, stride=2, padding=1), relu())
        self.depth = nn.Sequential(conv(16, 16, 3, padding=1, groups=16), relu())
        self.point = conv(16, 16, 1)
        self.shared = qnn.QuantIdentity(act_quant=signed, return_quant_tensor=True)
        self.relu = relu()
        self.pool = nn.MaxPool2d(2)
        self.dense = qnn.QuantLinear(
            256, 10, bias=True, weight_quant=weight, bias_quant=quant.Int32Bias
        )

    def forward(self, x):
        stem = self.stem(self.image(x))
        point = self.shared(self.point(self.depth(stem)))
        total = self.relu(point + self.shared(stem))
        return self.dense(torch.flatten(self.pool(total), 1))


def make(name, *quantisers, normalised=True, export=export_onnx_qcdq):
    torch.manual_seed(5)
    net = Net(*quantisers, normalised=normalised)
    pictures = torch.rand(64, 3, 16, 16) * 2 - 1
    with torch.no_grad():
        net.train()
        for start in range(0, 64, 16):  # statistics of batch normalisation
            net(pictures[start : start + 16])
        net.eval()
        with calibration_mode(net):
            net(pictures)
        with bias_correction_mode(net):
            net(pictures)
        export(
            net,
            args=pictures[:1],
            export_path=str(FOLDER / name),
            input_names=["image"],
            output_names=["scores"],
            opset_version=13,
            dynamo=False,
        )


def main():
    powers = (quant.Int8WeightPerTensorFixedPoint, *2 * (quant.Int8ActPerTensorFixedPoint,))
    make("brevitas_power_of_two.onnx", *powers, normalised=False)
    floats = (quant.Int8ActPerTensorFloat, quant.Uint8ActPerTensorFloat)
    make("brevitas_per_channel.onnx", quant.Int8WeightPerChannelFloat, *floats)
    make("brevitas_int4.onnx", quant.Int4WeightPerTensorFloatDecoupled, *floats)
    make("brevitas_qonnx.onnx", quant.Int8WeightPerTensorFloat, *floats, export=export_qonnx)


if __name__ == "__main__":
    main()
