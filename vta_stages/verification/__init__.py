"""Verification: programs that break a rule of the hardware are refused."""
