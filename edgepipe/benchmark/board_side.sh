# The board's side of `edgepipe bench`, one function per step (deploy/every_step.sh). The functions of
# doctor/readings.sh come before these.
# shellcheck disable=SC2164  # every_step.sh sets -e

# facts SYSTEM: the machine and its sensors. SYSTEM is a prefix of /proc and /sys, for tests.
facts() {
    echo "machine $(uname -m)"
    echo "kernel $(uname -r)"
    echo "model $(tr -d '\0' 2>/dev/null <"$1/proc/device-tree/model" || true)"
    readings "$1"
}

# hold BYTES: unpacks a tar archive of BYTES from stdin into a temporary folder, prints its name, and
# removes it when the connection ends.
hold() {
    folder=$(mktemp -d) || fail "no temporary folder can be made"
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 70' HUP INT TERM
    head -c "$1" | tar -x -o -m -f - -C "$folder" || fail "unpacking failed: $(df -Pk "$folder" | tail -n 1)"
    echo "folder $folder"
    cat >/dev/null
}

# measure FOLDER SECONDS ARGUMENT...: runs bin/edgepipe-run in FOLDER on the bundle there. Prints the last
# line of its output, its messages, and `ran` with its exit code. The run ends with the connection.
measure() {
    cd "$1"
    seconds=$2
    shift 2
    exec 3<&0
    timeout "$seconds" bin/edgepipe-run bundle "$@" >output 2>messages </dev/null 3<&- &
    run=$!
    trap 'kill "$run" 2>/dev/null || true; exit 70' HUP INT TERM
    (
        exec >/dev/null 2>&1
        cat <&3
        kill $$
    ) &
    guard=$!
    status=0
    wait "$run" || status=$?
    kill "$guard" 2>/dev/null || true
    echo "output $(tail -n 1 output)"
    sed 's/^/message /' messages
    echo "ran $status"
}
