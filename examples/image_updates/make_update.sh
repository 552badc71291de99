#!/bin/sh
# make_update.sh IMAGE VERSION CERTIFICATE KEY OUTPUT [FORMAT]: makes a RAUC bundle of the files in the folder
# IMAGE, with the hook that checks the release inside. FORMAT is verity (default; needs dm-verity on the
# board) or plain. COMPATIBLE (default edgepipe-ultra96) must be that of the board's system.conf; SIZE
# is that of the file system (default 512M). Needs rauc, mksquashfs and mke2fs. Run it as root, so that the
# files in the image belong to root.
set -eu
if [ $# -lt 5 ]; then
    echo "usage: make_update.sh IMAGE VERSION CERTIFICATE KEY OUTPUT [verity|plain]" >&2
    exit 2
fi
image=$1 version=$2 certificate=$3 key=$4 output=$5 format=${6:-verity}
content=$(mktemp -d)
trap 'rm -rf "$content"' EXIT
mke2fs -q -F -t ext4 -d "$image" "$content/rootfs.ext4" "${SIZE:-512M}"
cp "$(dirname "$0")/hook.sh" "$content/hook.sh"
cat >"$content/manifest.raucm" <<END
[update]
compatible=${COMPATIBLE:-edgepipe-ultra96}
version=$version

[bundle]
format=$format

[hooks]
filename=hook.sh

[image.rootfs]
filename=rootfs.ext4
hooks=post-install
END
rm -f "$output"
rauc bundle --cert="$certificate" --key="$key" "$content" "$output"
