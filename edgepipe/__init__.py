"""edgepipe: pipelines of neural-network stages for FPGA SoC boards with the VTA accelerator."""

__version__ = "0.1.0"
