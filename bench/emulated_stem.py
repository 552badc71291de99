"""Run a first convolution with onnxruntime or ncnn RUNS times, in an emulated aarch64 Python.

usage: emulated_stem.py onnxruntime|ncnn FOLDER RUNS; FOLDER has stem.onnx or stem.param and
stem.bin, and image.npy; the features go to features.npy.
"""

import sys

import numpy as np


def onnxruntime_runs(folder, image, runs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        f"{folder}/stem.onnx", options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    binding.bind_ortvalue_input("image", onnxruntime.OrtValue.ortvalue_from_numpy(image[None]))
    binding.bind_output("features")
    for _ in range(runs):
        session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()[0][0]


def ncnn_runs(folder, image, runs):
    import ncnn

    net = ncnn.Net()
    net.opt.num_threads = 1
    if net.load_param(f"{folder}/stem.param") or net.load_model(f"{folder}/stem.bin"):
        sys.exit("ncnn cannot read the stem")
    pixels = image.astype(np.int8)  # a Mat only borrows it
    given = ncnn.Mat(pixels)
    for _ in range(runs):
        extractor = net.create_extractor()
        extractor.input("image", given)
        _, features = extractor.extract("features")
    return np.array(features)


way, where, times = sys.argv[1:]
made = {"onnxruntime": onnxruntime_runs, "ncnn": ncnn_runs}[way](
    where, np.load(f"{where}/image.npy"), int(times)
)
np.save(f"{where}/features.npy", made)
