"""Verification: refuse programs that break a rule of the hardware."""
