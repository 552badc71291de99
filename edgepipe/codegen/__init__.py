"""Code generation for the stages that run on the ARM cores."""
