"""``edgepipe measure``: what the work of a board's accelerator and cores costs, by measurement."""
