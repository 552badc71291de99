"""Timing: how many cycles a program takes, and what the hardware's parameters are."""
