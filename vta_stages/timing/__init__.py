"""Timing: how many cycles a program takes, and the parameters of the hardware."""
