"""Networks with real weights that packages or the examples hold: ``edgepipe models``."""
