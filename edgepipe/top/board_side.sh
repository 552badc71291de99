# What `edgepipe top` reads of a machine, here or over SSH (deploy/every_step.sh).

# snapshots FOLDER: the machine's uptime in seconds, then a line of JSON for each pipeline whose
# process lives (docs/guides/statistics.md says what is in it).
snapshots() {
    cut -d ' ' -f 1 /proc/uptime
    for file in "$1"/edgepipe-*.json; do
        pid=${file##*/edgepipe-}
        pid=${pid%%-*}
        # A pipeline that ends meanwhile takes its file along.
        [ ! -d "/proc/$pid" ] || cat "$file" 2>/dev/null || true
    done
}
