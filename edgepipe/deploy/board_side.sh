# The board's side of a deploy, one function a step. It is sent along with every step, so that
# nothing has to be installed on the board first, and needs only POSIX sh and coreutils or busybox:
#
#     sh -c "$(cat board_side.sh)" edgepipe-deploy STEP ROOT [ARGUMENT...]
#
# ROOT/current -> releases/N     the release in use; replaced by one rename(2)
# ROOT/releases/N/               bundle/, bin/edgepipe-run, release.json, SHA256SUMS; never changed
# ROOT/releases/.incoming-ID/    a release on its way, or what an interrupted deploy left of it
# ROOT/releases/.trash-N/        a release on its way out
# ROOT/lock                      held with flock(1) by the deploy at work; says who that is
#
# Every step either leaves `current` alone or changes it in a single rename, after everything that
# it points to has been synced: whenever the link or the power goes, one whole release is current.
# Exit codes: 70 a step failed (why is on stderr), 71 the golden run failed, 75 the lock is held.
set -eu
export LC_ALL=C
umask 022

# What a login shell's start-up files may have printed ends here.
echo edgepipe-begin

step=$1
root=$2
shift 2
case $root in
/*) ;;
*) root=$HOME/$root ;;
esac

fail() {
    echo "$*" >&2
    exit 70
}

# probe SYSTEM: what the board is; changes nothing. SYSTEM goes before /run; empty on a board.
probe() {
    record=$1/run/edgepipe/bitstream.json
    [ ! -r "$record" ] || echo "bitstream $(head -n 1 "$record")"
    echo "machine $(uname -m)"
    for tool in cat df find flock head ln mkdir mv readlink rm sha256sum sort sync tar timeout; do
        command -v "$tool" >/dev/null || echo "missing $tool"
    done
    folder=$root
    while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
    [ -w "$folder" ] || echo "unwritable $folder"
    echo "df $(df -Pk "$folder" | tail -n 1)"
}

# numbers: the releases' numbers, oldest first.
numbers() {
    for folder in releases/[0-9]*; do
        [ -d "$folder" ] && echo "${folder#releases/}"
    done | sort -n
}

# inventory: releases, the current one, and digests of the files that a new release can link to:
# those of the newest and the current release and of interrupted deploys. Changes nothing.
inventory() {
    [ -d "$root/releases" ] || return 0
    cd "$root"
    current=$(readlink current || true)
    [ -z "$current" ] || echo "current ${current#releases/}"
    newest=
    for number in $(numbers); do
        newest=releases/$number
        echo "release $number $(cat "$newest/release.json" || true)"
    done
    [ "$current" != "$newest" ] || current=
    for folder in $newest $current releases/.incoming-*; do
        [ ! -d "$folder" ] || find "$folder" -type f -exec sha256sum {} +
    done
}

# lock HOLDER: takes the lock and keeps it while bytes keep coming on stdin. A peer that vanished
# without closing the connection loses it after a minute.
lock() {
    mkdir -p "$root/releases" || fail "cannot make $root"
    exec 9>>"$root/lock"
    status=0
    flock -n 9 || status=$?
    if [ "$status" = 1 ]; then
        cat "$root/lock" >&2
        exit 75
    fi
    [ "$status" = 0 ] || fail "flock: exit code $status"
    echo "$1" >"$root/lock"
    echo locked
    while [ -n "$(timeout 60 head -c 1 9>&-)" ]; do :; done
    : >"$root/lock"
}

# receive ID: unpacks the release from stdin, a tar archive whose hard links point to files that
# are here already, and compares every file with SHA256SUMS.
receive() {
    cd "$root/releases"
    rm -rf ".incoming-$1"
    mkdir ".incoming-$1"
    tar -x -m -o -f - || fail "unpacking failed; the disk has $(df -Pk . | tail -n 1)"
    cd ".incoming-$1"
    if ! report=$(sha256sum -c SHA256SUMS 2>&1); then
        fail "altered on the way: $(echo "$report" | grep -v ': OK$' | head -n 3)"
    fi
}

# golden FOLDER SECONDS: runs the golden input through the release in releases/FOLDER.
golden() {
    cd "$root/releases/$1"
    status=0
    # Results go to stdout and are not wanted; why it failed comes on stderr.
    { timeout "$2" bin/edgepipe-run bundle --golden --timeout "$2" --quiet >/dev/null; } 2>&1 ||
        status=$?
    [ "$status" != 124 ] || echo "no result after $2 s"
    [ "$status" = 0 ] || exit 71
}

# point N: makes release N the current one.
point() {
    cd "$root"
    [ -d "releases/$1" ] || fail "there is no release $1"
    [ -L current ] || [ ! -e current ] || fail "$root/current is not a link"
    ln -sfn "releases/$1" .current
    mv -f -T .current current
    sync
}

# activate ID N: the incoming release becomes release N and current.
activate() {
    cd "$root/releases"
    sync
    [ ! -e "$2" ] || fail "release $2 is there already"
    mv -T ".incoming-$1" "$2"
    point "$2"
}

# discard ID: removes an incoming release that is not worth keeping.
discard() {
    rm -rf "$root/releases/.incoming-$1"
}

# prune KEEP: removes all but the KEEP newest releases and the current one, and what interrupted
# deploys left behind. A release leaves by rename first, so that none is ever seen half removed.
prune() {
    cd "$root"
    current=$(readlink current)
    total=$(numbers | wc -l)
    for number in $(numbers); do
        [ "$total" -gt "$1" ] || break
        total=$((total - 1))
        [ "releases/$number" = "$current" ] || mv -T "releases/$number" "releases/.trash-$number"
    done
    rm -rf releases/.trash-* releases/.incoming-*
}

# hook COMMAND: runs the user's command in the current release.
hook() {
    cd "$root/current"
    sh -c "$1" 2>&1 </dev/null
}

"$step" "$@"
