"""Lowering: turn every layer into products into an accumulator and vector operations on it."""
