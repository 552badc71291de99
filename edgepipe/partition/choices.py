"""What a caller may choose about where operators run, without TVM."""

DEVICES = ("arm", "vta")

DEPTHWISE = ("auto", "arm", "vta")
"""Devices for depthwise convolutions; ``auto`` is the one with more frames per second."""
