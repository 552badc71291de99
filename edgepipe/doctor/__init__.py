"""What a board is and has, checked against what a bundle needs."""
