"""The smallest bundle: two files, no stages."""

from edgepipe.bundle.manifest import FORMAT, Fingerprint, Golden, Manifest, Tensor
from edgepipe.description import Postprocess
from edgepipe.frontend.preprocess import Preprocess
from vta_stages.accelerator import Accelerator

FILES = {"stages/0_arm/plan.json": b"{}", "golden/frame.bin": bytes(range(256)) * 40}


def manifest(entries):
    return Manifest(
        format=FORMAT,
        name="net",
        board="host",
        architectures=("x86_64",),
        accelerator=Accelerator(),
        fingerprint=Fingerprint(
            configuration="c", revision="0.0.1", clock_hz=1, bitstream="", builder_version="0"
        ),
        tensors=(Tensor(name="frame", dtype="uint8", shape=(1, 2, 2, 3), layout="nhwc", bytes=12),),
        inputs=("frame",),
        outputs=(),
        stages=(),
        placement=(),
        preprocess=Preprocess(width=2, height=2, order="GRAY", mean=(0.0,), std=(1.0,)),
        postprocess=Postprocess(kind="none"),
        golden=Golden(inputs=(), outputs=()),
        files=entries,
    )
