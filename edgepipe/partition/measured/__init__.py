"""Costs by measurement: ranges of operators by their content, and the file that has their times."""
