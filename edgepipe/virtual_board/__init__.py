"""The virtual Ultra96: a board under stock QEMU whose FPGA is a process on this machine."""
