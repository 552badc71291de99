# The board's side of `edgepipe setup-board`, one function per step (every_step.sh).

# look: whether this user can be root; changes nothing.
look() {
    if as_root true 2>/dev/null; then echo "root yes"; else echo "root no"; fi
}

# receive: unpacks the tar archive on stdin into a new folder and prints its path.
receive() {
    folder=$(mktemp -d)
    tar -x -C "$folder" || fail "the set-up's files could not be unpacked in $folder"
    echo "$folder"
}

# set_up FOLDER OPTION...: runs setup.sh as root, removes the folder and prints setup.sh's exit code.
set_up() {
    folder=$1
    shift
    trap 'rm -rf "$folder"' EXIT
    code=0
    as_root sh "$folder/setup.sh" "$@" </dev/null 2>&1 || code=$?
    echo "ended $code"
}
