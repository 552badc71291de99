# What `edgepipe top` reads of a machine, here or over SSH; needs only POSIX sh and busybox:
#
#     sh -c "$(cat board_side.sh)" edgepipe-top STEP ROOT FOLDER
#
# Prints the machine's uptime in seconds, then a line of JSON for each pipeline whose process lives
# (docs/statistics.md says what is in it).
set -eu
export LC_ALL=C

echo edgepipe-begin

snapshots() {
    cut -d ' ' -f 1 /proc/uptime
    for file in "$1"/edgepipe-*.json; do
        pid=${file##*/edgepipe-}
        pid=${pid%%-*}
        # A pipeline that ends meanwhile takes its file along.
        [ ! -d "/proc/$pid" ] || cat "$file" 2>/dev/null || true
    done
}

step=$1
shift 2
"$step" "$@"
