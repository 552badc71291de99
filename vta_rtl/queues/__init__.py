"""Queues between modules: instructions, and the tokens that order them."""
