#!/bin/sh
# The hook of a RAUC bundle: after a slot is written and before it may be started, the release inside must give
# its golden outputs on the processor's simulator. The accelerator stays with the running pipeline, whose
# bitstream may be another one. A failure fails the installation.
set -eu
case $1 in
slot-post-install) exec "$RAUC_SLOT_MOUNT_POINT/usr/lib/edgepipe/golden_run.sh" simulator ;;
*) exit 1 ;;
esac
