"""The memory map of the virtual board, shared by guest, FPGA model and tests.

QEMU's xlnx-zcu102 machine maps nothing at the PL's addresses (0xA0000000 on the real board), so the
accelerator's registers are in a part of DDR that Linux does not use. A driver finds them by the
name of their UIO device, as it should on a real board too.
"""

from __future__ import annotations

MIB = 1 << 20

DDR_BYTES = 2048 * MIB

# Contiguous memory for DMA, handed out by the u-dma-buf driver.
DMA_POOL_ADDRESS = 0x7000_0000
DMA_POOL_BYTES = 128 * MIB
DMA_BUFFER_BYTES = 96 * MIB

# Four HLS blocks (fetch, load, compute, store), one page each, as in the hardware.
REGISTERS_ADDRESS = 0x7800_0000
REGISTERS_BYTES = 0x4000
REGISTERS_RESERVED_BYTES = 1 * MIB

# One more page: the stand-in for the PL's reset line (cpp_runtime/src/emulation/fpga_model.h).
RESET_ADDRESS = REGISTERS_ADDRESS + REGISTERS_BYTES
RESET_BYTES = 0x1000

# Then the word that the FPGA's manager writes when it has programmed the FPGA, and its value
# (guest/fpga-manager.c). A model that starts blank waits for it.
CONFIGURED_ADDRESS = RESET_ADDRESS + RESET_BYTES
CONFIGURED = 0x5654_4121

# The first of the PL's interrupts to the processor, pl_ps_irq0[0]: GIC SPI 89, rising edge.
INTERRUPT_SPI = 89

UIO_NAME = "vta"
RESET_UIO_NAME = "vta-reset"
DMA_BUFFER_NAME = "udmabuf0"
