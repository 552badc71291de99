# The first argument of every step of `edgepipe bitstream install` (board_side.sh): SYSTEM, a prefix of
# /lib, /sys, /dev and /run, for tests.
# shellcheck disable=SC2034  # used by the functions that follow
system=$1
shift
