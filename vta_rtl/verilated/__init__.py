"""The accelerator as a program: its Verilog, compiled by Verilator, behind a driver."""
