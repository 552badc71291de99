"""Placement rules as data: what each device can and should run, and why not otherwise."""
