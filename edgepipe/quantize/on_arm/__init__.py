"""Operators on int8 that only ARM cores compute, and that TVM lowers as they are written."""
