"""Layer, group and instance normalisation in integers, which run on ARM only."""
