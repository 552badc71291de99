"""Layers: what a network's operators are, whether their parts fit, and what they compute."""
