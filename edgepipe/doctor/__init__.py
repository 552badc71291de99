"""Examine a board and compare what it has with what a bundle needs."""
