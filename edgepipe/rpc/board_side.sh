# The board's side of `edgepipe rpc`, one function per step (deploy/every_step.sh).
#
# ROOT/rpc/   edgepipe-rpcd and the TVM libraries that it loads from beside itself
# shellcheck disable=SC2154,SC2164  # every_step.sh sets root, and -e

# survey: the machine, and digests of the files that are there; changes nothing.
survey() {
    echo "machine $(uname -m)"
    [ ! -d "$root/rpc" ] || find "$root/rpc" -maxdepth 1 -type f -exec sha256sum {} +
}

# receive: unpacks the files of the tar archive on stdin, then puts each in its place by a rename,
# so that a running server keeps its own copies.
receive() {
    mkdir -p "$root/rpc"
    cd "$root/rpc"
    folder=$(mktemp -d ./.incoming-XXXXXX)
    trap 'rm -rf "$folder"' EXIT
    tar -x -m -o -f - -C "$folder"
    sync
    mv -f "$folder"/* .
}
