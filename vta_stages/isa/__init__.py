"""The instruction set: fields, bits, tensor layouts, and what each instruction touches."""
