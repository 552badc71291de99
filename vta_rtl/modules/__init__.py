"""The accelerator's concurrent modules: fetch, load, compute and store."""
