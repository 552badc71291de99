#!/bin/sh
# golden_run.sh DEVICE [RELEASE]: runs the golden input of a release; succeeds if the outputs are the golden
# ones, bit for bit, on DEVICE: `uio`, the accelerator, or `simulator`, which needs none and leaves the
# accelerator to others. By default, RELEASE is that of the image which contains this script.
# Exit codes: those of edgepipe-run; 2 wrong use.
set -eu
if [ $# -lt 1 ]; then
    echo "usage: golden_run.sh DEVICE [RELEASE]" >&2
    exit 2
fi
device=$1
release=${2:-$(cd "$(dirname "$0")" && pwd)/release}
if [ ! -x "$release/bin/edgepipe-run" ]; then
    echo "golden_run.sh: $release has no bin/edgepipe-run, expected a release of edgepipe" >&2
    echo "hint: build the image again with make_release.py" >&2
    exit 1
fi
(cd "$release" && sha256sum --quiet -c SHA256SUMS) >&2
exec "$release/bin/edgepipe-run" "$release/bundle" --golden --quiet --device "$device" >/dev/null
