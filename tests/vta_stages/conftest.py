"""Puts this folder on the import path, so that tests in its rooms find what they share here."""
