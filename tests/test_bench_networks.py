"""The benchmark's networks are the published ones, by their numbers of multiplications."""

from __future__ import annotations

import pytest

from bench import networks
from vta_stages.layers.check import check_consistent

MACS_PER_CYCLE = 256


@pytest.mark.parametrize(
    ("make", "cycles"),
    [
        # 6,623,232 for the convolutions (the Chisel VTA's figure) and 2,000 for the classifier.
        (networks.resnet18_body, 6_623_232 + 2_000),
        (networks.resnet50_body, 14_609_216),
        # darknet counts 5.56 BFLOP, 0.15 of them in the first convolution.
        (networks.yolov3_tiny_body, 10_577_034),
        (networks.mobilenet_v2_body, 1_132_563),
    ],
)
def test_cycles_of_products_with_padding(make, cycles: int) -> None:
    workload = make()
    for layer in workload.layers:
        check_consistent(layer)
    assert workload.macs // MACS_PER_CYCLE == cycles
    assert workload.inputs == ("x",)


def test_a_body_ends_in_what_the_network_gives() -> None:
    sizes = {layer.output.name: layer.output for layer in networks.yolov3_tiny_body().layers}
    outputs = [sizes[name] for name in networks.yolov3_tiny_body().outputs]
    assert [(o.channels, o.height) for o in outputs] == [(255, 13), (255, 26)]
    assert len(networks.resnet18_body().outputs) == 1


def test_average_pooling_has_no_multiplications_to_count() -> None:
    layers = {layer.name: layer for layer in networks.resnet18_body().layers}
    (average,) = (layer for name, layer in layers.items() if name.startswith("average"))
    assert networks.layer_macs(average) == 0
