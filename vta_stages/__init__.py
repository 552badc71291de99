"""The VTA compiler: layers in, verified programs out. Knows nothing of ONNX, TVM or SSH."""
