"""What runs VTA stages, and what happens when it hangs, as options of ``load_pipeline``."""

from __future__ import annotations


def device_options(
    device: str, timeout_s: float | None, hangs: tuple[int, int], trial: int
) -> dict[str, object]:
    """Return the options by name; ``edgepipe.load`` explains them.

    ``cpp_runtime/src/session/json_options.cc`` reads and checks them.
    """
    options: dict[str, object] = {
        "device": device,
        "device_hangs": list(hangs),
        "device_trial": trial,
    }
    if timeout_s is not None:
        options["device_timeout_s"] = timeout_s
    return options
