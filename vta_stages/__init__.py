"""The VTA compiler: layers in, verified accelerator programs out. Knows nothing of ONNX, TVM or SSH."""
