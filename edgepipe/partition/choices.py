"""What a caller may choose about where operators run, without TVM."""

DEVICES = ("arm", "vta")

DEPTHWISE = ("auto", "arm", "vta")
"""Devices for depthwise convolutions; ``auto`` is the one with more frames per second."""

OBJECTIVES = ("throughput", "latency", "energy-proxy")
"""What a split can be good at: most frames per second, the shortest time of one frame alone, or
the least busy time of a frame. The last adds up the milliseconds of the accelerator and of every
core, each counted alike, because nobody has measured a board's power by unit."""

BY_RULE = "rule"
"""No objective and no search: one program of the accelerator where that is possible, and depthwise
convolutions as ``DEPTHWISE`` says."""
