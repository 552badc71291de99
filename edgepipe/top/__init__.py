"""Pipelines that run now, here or on a board, read from another process: ``edgepipe top``."""
