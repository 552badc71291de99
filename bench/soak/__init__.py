"""A long run of a camera's pipeline under the faults that occur in the field."""
