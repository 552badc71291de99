"""Put a stage written in C++ in front of a network, and show its effect on a dark picture.

    python examples/cpp_stage/run.py build/cpp_stage/libauto_contrast.so \\
        build/demo/nanodet.edgepipe examples/calibration/dog.jpg
"""

from __future__ import annotations

import sys

import cv2

import edgepipe


def make_config(bundle: str, library: str | None) -> edgepipe.PipelineConfig:
    """Return the bundle's stages, behind the stage of ``library`` if there is one."""
    config = edgepipe.PipelineConfig.from_bundle(bundle)
    if library is None:
        return config
    (name,) = config.inputs
    (first, port) = config.inputs[name][0]
    picture = (first.inputs[0].dtype, first.inputs[0].shape)  # uint8[1, 416, 416, 3]

    contrast = edgepipe.library_stage(
        library,
        "auto_contrast",  # the function's name
        inputs={"picture": picture},
        outputs={"stretched": picture},
    )
    config.inputs[name] = (contrast, "picture")  # instead of (first, port)
    config.connect(contrast, "stretched", first, port)
    return config


def main(library: str, bundle: str, picture: str) -> None:
    """Print the best score of any class, without and with the stage."""
    for title, used in (("network alone", None), ("behind auto_contrast", library)):
        with make_config(bundle, used).build().start() as pipeline:
            _, height, width, _ = pipeline.inputs[0].shape
            dark = cv2.resize(cv2.imread(picture), (width, height)) // 48  # values from 0 to 5
            result = pipeline.submit(dark[None]).result(timeout_s=10)
            scores = [array for array in result.outputs if array.shape[-1] == 80]
            print(f"{title}: best score {max(array.max() for array in scores):.2f}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(f"usage: {sys.argv[0]} LIBRARY BUNDLE PICTURE")
    main(sys.argv[1], sys.argv[2], sys.argv[3])
