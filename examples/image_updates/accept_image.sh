#!/bin/sh
# accept_image.sh [ROOT]: the health check after a boot, for RAUC (edgepipe-image.service). If the image's
# release gives the golden outputs on the accelerator, the slot is marked good, and its release becomes
# the current one in ROOT. If not, and this board has never accepted the image, the slot is marked bad and
# the exit code is 1: the unit then reboots into the slot before. An image that was accepted once is not given up
# for a fault that came later, because the other slot would have it as well. If the release of a good image cannot
# become the current one, e.g. on a full data partition, the one before stays: a reboot would not change that.
# EDGEPIPE_DEVICE replaces uio, the accelerator.
set -eu
root=${1:-/data/edgepipe}
here=$(cd "$(dirname "$0")" && pwd)
digest=$(sha256sum "$here/release/SHA256SUMS" || true)
accepted=$(cat "$root/adopted" 2>/dev/null || true)

if "$here/golden_run.sh" "${EDGEPIPE_DEVICE:-uio}"; then
    rauc status mark-good
    "$here/adopt_release.sh" "$root" || {
        echo "accept_image.sh: the image is good, but its release cannot become the current one" >&2
        echo "hint: see the message above and the free space of $root, then run $0 $root" >&2
    }
elif [ -n "$accepted" ] && [ "$accepted" = "${digest%% *}" ]; then
    rauc status mark-good
    echo "accept_image.sh: the golden run of an image that was good before has failed" >&2
    echo "hint: examine the board with \`edgepipe doctor\`" >&2
else
    rauc status mark-bad
    echo "accept_image.sh: the golden run of this image has failed; the slot before is started" >&2
    echo "hint: see the messages above; build an image for this board and its bitstream" >&2
    exit 1
fi
