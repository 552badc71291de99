"""What a benchmark or a test needs, and this machine lacks."""

from __future__ import annotations


class LackingError(SystemExit):
    """This machine lacks something; if uncaught, the error ends a benchmark with its text."""
