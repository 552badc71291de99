"""From an ONNX file and pictures to a float Relax network and frames."""
