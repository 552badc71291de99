"""The VTA compiler: layers in, verified programs out. Independent of ONNX, TVM and boards."""
