"""Benchmarks of bundles, on this machine or on a board: run, recorded as JSON, compared."""
