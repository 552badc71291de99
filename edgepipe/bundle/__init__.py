"""The bundle: a network's stages with everything needed to run and to check them."""
