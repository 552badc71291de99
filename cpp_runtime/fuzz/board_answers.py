"""What a board answers to a deploy and to ``edgepipe doctor``: seeds of `board-answers`."""

from __future__ import annotations

import json

_SHA256 = "0123456789abcdef" * 4
_BITSTREAM = json.dumps(
    {
        "path": "/lib/firmware/vta.bit.bin",
        "sha256": _SHA256,
        "part": "xczu3eg",
        "configuration": "1x16_i8w8a32_15_15_18_17",
        "revision": "0.0.2",
        "clock_hz": 100_000_000,
        "installed_by": "edgepipe",
        "installer_version": "0.1.0",
    }
)
_RELEASE = json.dumps(
    {
        "name": "net",
        "builder_version": "0.1.0",
        "deployed_by": "user",
        "deployed_at": "2026-01-02T03:04:05Z",
    }
)
_DF = "df /dev/mmcblk0p2 14384136 5242880 8388608 39% /"
_PROBE = f"""bitstream {_BITSTREAM}
machine aarch64
missing flock
unwritable /opt/edgepipe
{_DF}
unit active
"""
_INVENTORY = f"""current 2
release 1 broken
release 2 {_RELEASE}
{_SHA256}  releases/2/bundle/manifest.json
{_SHA256}  releases/2/bin/edgepipe-cam
"""
_SURVEY = f"""machine aarch64
kernel 6.1.30-xilinx
user xilinx
libc glibc 2.31
os Ubuntu 20.04 LTS
model Avnet Ultra96-V2
module u_dma_buf
CmaTotal 131072 kB
CmaFree 65536 kB
uio uio0 rw 0x1000 vta
buffer udmabuf0 rw 67108864 rw 1
zocl dri/renderD128 rw
heap dma_heap/reserved none
capabilities 0000000000002000
camera video0 rw USB Camera
manager fpga0 operating
bitstream {_BITSTREAM}
release 2 {_RELEASE}
{_DF}
clock cpu0 1200000 1200000 performance
logicclock 100000000 pl0_ref
temperature 45123 ps_temp
power 2500000 total
"""
ANSWERS = {
    "probe": _PROBE,
    "inventory": _INVENTORY,
    "survey": _SURVEY,
    "bitstream": _BITSTREAM,
}
