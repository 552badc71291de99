"""The GEMM and ALU instructions."""
