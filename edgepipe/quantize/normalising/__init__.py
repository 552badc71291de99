"""Layer, group and instance normalisation and lengths in integers, which run on ARM only."""
