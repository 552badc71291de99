#!/bin/sh
# Program the FPGA with the bitstream that `edgepipe bitstream install` last programmed; see
# edgepipe-bitstream.service.
#
#     program-bitstream [SYSTEM]     SYSTEM is a prefix of /lib, /sys and /run, for tests
# shellcheck disable=SC2034,SC2154  # shared with programming.sh
set -eu

system=${1:-}

fail() {
    echo "error: $*" >&2
    echo "hint: install it again: edgepipe bitstream install FILE --board BOARD --host HOST" >&2
    exit 1
}

as_root() {
    "$@"
}

# shellcheck source=/dev/null
. "$(dirname "$0")/programming.sh"

which=$firmware/at-boot/which
[ -r "$which" ] || fail "$which: missing, so no bitstream was programmed on this board before"
read -r name digest by <"$which"
file=$firmware/at-boot/$name
found=$(sha256sum "$file" | cut -d ' ' -f 1)
[ "$found" = "$digest" ] ||
    fail "$file: its digest is ${found:-unknown}, expected $digest: it was changed after its installation"
program_stored "at-boot/$name" "$by"
echo "programmed $name through $by"
