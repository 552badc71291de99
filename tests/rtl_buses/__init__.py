"""The whole core's Verilog behind cocotb's models of AXI: ``make rtl-buses``."""
