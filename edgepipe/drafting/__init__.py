"""Drafts of descriptions: what a network's file says about its input and its outputs."""
