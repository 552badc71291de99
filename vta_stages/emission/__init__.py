"""Emission: turn a tiled kernel into instructions, uops, constants and tokens."""
