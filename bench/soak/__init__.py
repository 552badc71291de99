"""A long run of a camera's pipeline under the faults that a year in the field brings."""
