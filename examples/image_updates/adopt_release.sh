#!/bin/sh
# adopt_release.sh ROOT [RELEASE]: makes the image's RELEASE the current one in ROOT, the folder of releases on
# the data partition, once for each image: ROOT/adopted has the digest of the last one. Later deploys replace
# it, until the next image. Exit codes: 0 done or nothing to do, 1 failed (the current release stays), 2 wrong use.
set -eu
if [ $# -lt 1 ]; then
    echo "usage: adopt_release.sh ROOT [RELEASE]" >&2
    exit 2
fi
root=$1
release=${2:-$(cd "$(dirname "$0")" && pwd)/release}
keep=3

digest=$(sha256sum "$release/SHA256SUMS")
digest=${digest%% *}
[ "$(cat "$root/adopted" 2>/dev/null || true)" != "$digest" ] || exit 0

numbers() {
    for folder in "$root"/releases/[0-9]*; do
        [ ! -d "$folder" ] || echo "${folder##*/}"
    done | sort -n
}

mkdir -p "$root/releases"
# Deploys hold this lock, too, while they change `current`.
exec 8>>"$root/adopting"
flock -w 60 8 || {
    echo "adopt_release.sh: $root: a deploy has been finishing for 60 s" >&2
    echo "hint: wait until it ends, then run this again" >&2
    exit 1
}
number=$(($(numbers | tail -n 1) + 1))
incoming=$root/releases/.incoming-image
rm -rf "$incoming"
cp -R "$release" "$incoming"
(cd "$incoming" && sha256sum --quiet -c SHA256SUMS) >&2
# The user who deploys can then remove it.
chown -R --reference="$root" "$incoming" "$root/releases" "$root/adopting"
sync
mv -T "$incoming" "$root/releases/$number"
ln -sfn "releases/$number" "$root/.current"
mv -f -T "$root/.current" "$root/current"
sync
echo "$digest" >"$root/.adopted"
mv -f "$root/.adopted" "$root/adopted"
for old in $(numbers | head -n "-$keep"); do
    rm -rf "$root/releases/$old"
done
sync
echo "release $number of the image is current"
