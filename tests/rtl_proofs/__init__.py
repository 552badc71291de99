"""Formal proofs of the accelerator's circuits: properties in Amaranth, proved by sby with z3."""
