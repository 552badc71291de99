"""Lowering: every layer as products into an accumulator and vector operations on it."""
