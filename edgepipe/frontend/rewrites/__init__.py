"""Rules that replace ONNX operators by others with an integer form, by what they work on."""
