"""The registers that the processor sees, over AXI-Lite."""
