"""Statistics of running pipelines, read from another process: ``edgepipe top``."""
