"""The VTA accelerator as synthesisable hardware, written in Amaranth."""
