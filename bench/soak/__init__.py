"""A long run of a camera's pipeline under everything that a year in the field brings."""
