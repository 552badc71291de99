"""Puts this folder on the import path, so that the tests below it find their shared helpers."""
