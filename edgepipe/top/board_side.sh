# The part of `edgepipe top` that runs on the machine, here or over SSH (deploy/every_step.sh).

# snapshots FOLDER: the machine's uptime in seconds, then one line of JSON for each pipeline whose
# process is alive (docs/guides/statistics.md describes it).
snapshots() {
    cut -d ' ' -f 1 /proc/uptime
    for file in "$1"/edgepipe-*.json; do
        pid=${file##*/edgepipe-}
        pid=${pid%%-*}
        # A pipeline that ends meanwhile removes its file.
        [ ! -d "/proc/$pid" ] || cat "$file" 2>/dev/null || true
    done
}
