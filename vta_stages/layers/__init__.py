"""Layers: records of a network's operators, their consistency checks, and their reference."""
