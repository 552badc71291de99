# Sent before the functions of every board_side.sh; the call at the end runs one of them:
#
#     sh -c "$(cat every_step.sh board_side.sh); \"\$step\" \"\$@\"" edgepipe STEP ROOT [ARGUMENT...]
#
# Nothing has to be installed on the board first: POSIX sh and coreutils or busybox are enough.
# ROOT is the deploy folder, relative to the home folder or absolute.
set -eu
export LC_ALL=C
umask 022

# Output before this line may come from a login shell's start-up files.
echo edgepipe-begin

# shellcheck disable=SC2034  # the call after the functions
step=$1
root=$2
shift 2
case $root in
/*) ;;
*) root=$HOME/$root ;;
esac

# fail MESSAGE...: ends the step; prints the reason to stderr.
fail() {
    echo "$*" >&2
    exit 70
}

# as_root COMMAND...: runs the command directly as root, otherwise through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# folder_there FOLDER: the folder, or its nearest existing parent.
folder_there() {
    found=$1
    while [ ! -d "$found" ]; do found=$(dirname "$found"); done
    echo "$found"
}
