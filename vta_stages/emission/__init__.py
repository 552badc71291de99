"""Emission: a tiled kernel as instructions, micro-operations, constants and tokens."""
