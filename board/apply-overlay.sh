#!/bin/sh
# Apply the device-tree overlay of edgepipe's accelerator, once; see edgepipe-overlay.service.
#
#     apply-overlay [SYSTEM]     SYSTEM is a prefix of /sys, /proc and /lib, for tests
set -eu

system=${1:-}
blob=$system/lib/firmware/edgepipe/vta.dtbo
overlays=$system/sys/kernel/config/device-tree/overlays

if [ -d "$system/proc/device-tree" ] && ls -d "$system"/proc/device-tree/vta@* >/dev/null 2>&1; then
    exit 0 # already in the boot loader's device tree, or applied by an earlier run
fi
if [ -z "$(ls -A "$system/sys/kernel/config" 2>/dev/null)" ]; then
    mount -t configfs none "$system/sys/kernel/config" 2>/dev/null || true
fi
if [ ! -d "$overlays" ]; then
    echo "error: $overlays: missing, expected a kernel with CONFIG_OF_CONFIGFS" >&2
    echo "hint: merge $blob into the boot loader's device tree with fdtoverlay" >&2
    exit 1
fi
mkdir "$overlays/vta"
cat "$blob" >"$overlays/vta/dtbo"
if [ "$(cat "$overlays/vta/status" 2>/dev/null || echo applied)" != applied ]; then
    rmdir "$overlays/vta"
    echo "error: $blob: the kernel did not apply it; see dmesg for the reason" >&2
    exit 1
fi
