"""Random VTA programs whose result does not depend on the order that their tokens leave open."""
