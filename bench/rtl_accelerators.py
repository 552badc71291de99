"""The accelerators that ``make bench-rtl`` runs networks on and ``make rtl-report`` synthesises."""

from vta_stages.accelerator import Accelerator, Extension

EXTENSIONS = tuple(extension.value for extension in Extension)

ACCELERATORS = {
    "stock": Accelerator(acc_hazard_steps=1),
    "extended": Accelerator(acc_hazard_steps=1, extensions=EXTENSIONS),
    "1x32x16": Accelerator(
        block_in=32, inp_buffer_bytes_log2=16, acc_hazard_steps=1, extensions=EXTENSIONS
    ),
}
"""The stock sizes without extensions and with all of them, and twice as many products a cycle."""
