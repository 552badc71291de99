# The board's side of `edgepipe rpc`, sent along like deploy's board_side.sh:
#
#     sh -c "$(cat board_side.sh)" edgepipe-rpc STEP ROOT [ARGUMENT...]
#
# ROOT/rpc/   edgepipe-rpcd and the TVM libraries that it loads from beside itself
set -eu
export LC_ALL=C
umask 022

echo edgepipe-begin

step=$1
root=$2
shift 2
case $root in
/*) ;;
*) root=$HOME/$root ;;
esac

# survey: the machine, and digests of the files that are there; changes nothing.
survey() {
    echo "machine $(uname -m)"
    [ ! -d "$root/rpc" ] || find "$root/rpc" -maxdepth 1 -type f -exec sha256sum {} +
}

# receive: unpacks the files of the tar archive on stdin, then puts each in its place by a rename,
# so that a server at work keeps the ones that it has.
receive() {
    mkdir -p "$root/rpc"
    cd "$root/rpc"
    folder=$(mktemp -d ./.incoming-XXXXXX)
    trap 'rm -rf "$folder"' EXIT
    tar -x -m -o -f - -C "$folder"
    sync
    mv -f "$folder"/* .
}

"$step" "$@"
