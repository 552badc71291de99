"""Bitstreams: known files, the ``.bit`` header, checks, conversion for Linux."""
