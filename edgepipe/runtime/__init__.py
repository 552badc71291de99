"""The C++ runtime from Python: the simulator, stages and pipelines of libedgepipe_runtime."""
