# What is sent before the functions of every board_side.sh, one of which the call after them runs:
#
#     sh -c "$(cat every_step.sh board_side.sh); \"\$step\" \"\$@\"" edgepipe STEP ROOT [ARGUMENT...]
#
# Nothing has to be installed on the board first: all of it needs only POSIX sh and coreutils or
# busybox. ROOT is the folder of the deploys, in the home folder unless it is absolute.
set -eu
export LC_ALL=C
umask 022

# What a login shell's start-up files may have printed ends here.
echo edgepipe-begin

# shellcheck disable=SC2034  # the call after the functions
step=$1
root=$2
shift 2
case $root in
/*) ;;
*) root=$HOME/$root ;;
esac

# fail MESSAGE...: ends the step; why is on stderr.
fail() {
    echo "$*" >&2
    exit 70
}

# as_root COMMAND...: runs it as it is for root, else through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# folder_there FOLDER: the folder, or the nearest one above it that is there.
folder_there() {
    found=$1
    while [ ! -d "$found" ]; do found=$(dirname "$found"); done
    echo "$found"
}
