# The part of `edgepipe top` that runs on the machine, here or over SSH (deploy/every_step.sh).

# snapshots FOLDER: the machine's uptime in seconds, then one line of JSON for each pipeline whose
# process is alive (docs/guides/statistics.md describes it). Any user may write to the folder, so
# only regular files that belong to their process's user count, and reading one ends after a second
# and 1 MiB.
snapshots() {
    cut -d ' ' -f 1 /proc/uptime
    for file in "$1"/edgepipe-*.json; do
        pid=${file##*/edgepipe-}
        pid=${pid%%-*}
        # A pipeline that ends meanwhile removes its file.
        if [ -f "$file" ] && [ ! -L "$file" ] && belongs "$file" "/proc/$pid/status"; then
            timeout 1 head -c 1048576 "$file" 2>/dev/null || true
        fi
    done
}

# belongs FILE STATUS: whether the file's owner is the effective user of the process of STATUS. (The
# owner of /proc/PID is root for a process with capabilities.)
belongs() {
    user=$(sed -n 's/^Uid:[[:space:]]*[0-9]*[[:space:]]*\([0-9]*\).*/\1/p' "$2" 2>/dev/null) || return 1
    [ "$(stat -c %u "$1" 2>/dev/null)" = "$user" ]
}
