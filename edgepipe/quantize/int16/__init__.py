"""Layers in int16 on request: finer steps than int8, sums in int64, on ARM only."""
