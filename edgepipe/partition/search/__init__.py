"""The automatic split: search all placements of a network's operators for the best pipeline."""
