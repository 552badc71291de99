# The board's side of a deploy, one function per step (every_step.sh).
#
# ROOT/current -> releases/N     the release in use; replaced by one rename(2)
# ROOT/releases/N/               bundle/, bin/, release.json, SHA256SUMS; never changed
# ROOT/releases/.incoming-ID/    a release being received, or the rest of an interrupted deploy
# ROOT/releases/.trash-N/        a release being removed
# ROOT/lock                      held with flock(1) by the running deploy; contains its holder
# ROOT/adopting                  held with flock(1) by the step that may change `current`
# ROOT/paused                    held with flock(1) while a golden run needs the accelerator; the start
#                                of the unit waits for it
#
# Every step either leaves `current` alone or changes it by a single rename, after everything that it
# points to has been synced. After any loss of connection or power, one complete release is current.
# The kernel releases a lock when its last holder ends, also after SIGKILL. So a unit whose start waits
# for `paused` comes back however a step ends.
# Exit codes: 70 a step failed (reason on stderr), 71 the golden run failed, 72 a failure after the
# switch, which was undone if there was an earlier release, 73 old releases could not be removed,
# 75 the lock is held.
# shellcheck disable=SC2154,SC2164  # every_step.sh sets root, and -e

# unit_state UNIT: active, inactive, failed ...; nothing if the board has no such unit.
unit_state() {
    [ -z "$1" ] || ! systemctl cat "$1" >/dev/null 2>&1 || systemctl is-active "$1" || true
}

# probe SYSTEM UNIT: facts about the board; changes nothing. SYSTEM is a prefix of /run and /proc, for tests.
probe() {
    record=$1/run/edgepipe/bitstream.json
    [ ! -r "$record" ] || echo "bitstream $(head -n 1 "$record")"
    tree=$1/proc/device-tree/compatible
    [ ! -r "$tree" ] || echo "compatible $(tr '\0' ' ' <"$tree")"
    echo "machine $(uname -m)"
    for tool in cat df find flock head ln mkdir mktemp mv readlink rm setsid sha256sum sort sync tail \
        tar timeout tr; do
        command -v "$tool" >/dev/null || echo "missing $tool"
    done
    folder=$(folder_there "$root")
    [ -w "$folder" ] || echo "unwritable $folder"
    echo "df $(df -Pk "$folder" | tail -n 1)"
    state=$(unit_state "$2")
    [ -z "$state" ] || echo "unit $state"
}

# numbers: the releases' numbers, oldest first.
numbers() {
    for folder in releases/[0-9]*; do
        [ -d "$folder" ] && echo "${folder#releases/}"
    done | sort -n
}

# inventory: the releases, the current one, and the digests of the files that a new release can link
# to (those of the newest and the current release and of interrupted deploys). Changes nothing.
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

# look SYSTEM UNIT: facts and inventory; changes nothing.
look() {
    probe "$1" "$2"
    inventory
}

# lock HOLDER: takes the lock and keeps it while bytes keep arriving on stdin. A peer that vanishes
# without closing the connection loses it after a minute.
lock() {
    mkdir -p "$root/releases" || fail "cannot make $root"
    exec 9>>"$root/lock"
    flock -n 9 || {
        cat "$root/lock" >&2
        exit 75
    }
    # A deploy that lost its connection ends as soon as it sees that.
    tries=0
    until flock -n "$root/adopting" true; do
        tries=$((tries + 1))
        if [ "$tries" = 20 ]; then
            echo "a deploy that lost its connection is still finishing" >&2
            exit 75
        fi
        sleep 1
    done
    # On a full disk the name cannot be written; the plan then reports the full disk.
    { echo "$1" >"$root/lock"; } 2>/dev/null || true
    (inventory)
    echo locked
    while [ -n "$(timeout 60 head -c 1 9>&-)" ]; do :; done
    : >"$root/lock"
}

# begin SYSTEM UNIT HOLDER: probes, waits for a byte as permission to continue, then locks.
begin() {
    probe "$1" "$2"
    echo probed
    [ -z "$(head -c 1)" ] || lock "$3"
}

# receive FOLDER: unpacks the release from stdin, a tar archive whose hard links point to files that
# the board already has, and compares every file with SHA256SUMS.
receive() {
    cd "$root/releases"
    rm -rf "$1"
    mkdir "$1"
    tar -x -m -o -f - || fail "unpacking failed; the disk has $(df -Pk . | tail -n 1)"
    cd "$1"
    if ! report=$(sha256sum -c SHA256SUMS 2>&1); then
        fail "changed during the transfer: $(echo "$report" | grep -v ': OK$' | head -n 3)"
    fi
}

# raise_version POLICY: if versions only grow, remembers that of the current release, so that lower ones
# are refused from now on.
raise_version() {
    grep -q '^[[:space:]]*versions_only_grow=yes[[:space:]]*$' "$1" || return 0
    release=$root/current
    # A release that the policy refuses does not count.
    said=$("$release/bin/edgepipe-run" "$release/bundle" --verify --policy "$1" 2>/dev/null) || return 0
    version=$(echo "$said" | sed -n 's/^version //p')
    file=$(sed -n 's/^[[:space:]]*highest_version=//p' "$1" | tail -n 1)
    file=${file:-/var/lib/edgepipe/highest_version}
    [ "${version:-0}" -gt "$(cat "$file" 2>/dev/null || echo 0)" ] || return 0
    { echo "$version" >"$file.new" && mv -f "$file.new" "$file"; } 2>/dev/null ||
        fail "$file cannot be written by this user, and the policy needs it"
    sync
}

# accept FOLDER SYSTEM: asks the board's policy about the bundle in releases/FOLDER, and prints why it
# is refused: `refused`, the exit code and the program's messages. Nothing of the bundle is run. SYSTEM
# is a prefix of /etc, for tests.
accept() {
    policy=$2/etc/edgepipe/policy
    [ -e "$policy" ] || return 0
    raise_version "$policy"
    cd "$root/releases/$1"
    status=0
    said=$(bin/edgepipe-run bundle --verify --policy "$policy" 2>&1 >/dev/null) || status=$?
    [ "$status" = 0 ] || printf 'refused %s\n%s\n' "$status" "$said"
}

# settle SYSTEM: what remains to be done for the policy after a switch.
settle() {
    [ ! -e "$1/etc/edgepipe/policy" ] || raise_version "$1/etc/edgepipe/policy"
}

# golden FOLDER SECONDS: runs the golden input through the release in releases/FOLDER and prints the
# verdict. The run ends with this function, and within a second after the shell that called it.
golden() {
    cd "$root/releases/$1"
    errors=$(mktemp)
    # Discards the results; the device and the reason of a failure are in the program's messages.
    timeout "$2" bin/edgepipe-run bundle --golden --timeout "$2" >/dev/null 2>"$errors" &
    run=$!
    trap 'kill $run 2>/dev/null || true' TERM
    (
        exec </dev/null >/dev/null 2>&1 7>&- 8>&-
        while kill -0 $$; do sleep 1; done
        kill $run
    ) &
    guard=$!
    status=0
    wait $run || status=$?
    kill $guard 2>/dev/null || true
    said=$(sed -n 's/^edgepipe-run: error: //p' "$errors" | tail -n 1)
    [ -n "$said" ] || said=$(tail -n 3 "$errors" | tr '\n' ';')
    case $status in
    0) said=equal$(sed -n 's/^VTA stages ran on: / on /p' "$errors") ;;
    124) said="$said no result after $2 s" ;;
    esac
    rm -f "$errors"
    echo "golden ${said:-exit code $status}"
}

# await_answer PID SECONDS: prints the byte that the other side sends after it has seen the verdict,
# which takes at most SECONDS. If the other side is gone, the run PID is no longer needed and is killed.
# A link that is cut silently gives no end of input, so there is a limit.
await_answer() {
    answer=$(timeout $(($2 + 30)) head -c 1 || true)
    [ -n "$answer" ] || kill "$1" 2>/dev/null || true
    echo "$answer"
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

# substate UNIT: dead, start-pre, running ...
substate() {
    systemctl show -p SubState "$1" | sed 's/^SubState=//'
}

# waits_for_us UNIT: whether the start of UNIT waits for `paused` (board/edgepipe.service).
waits_for_us() {
    systemctl show -p ExecStartPre "$1" | grep -qF "$root/paused "
}

# pause UNIT: stops UNIT until file descriptor 7, the lock `paused`, is closed. From the first line on,
# something outside this shell is responsible for the start.
pause() {
    # Earlier starts must not count against the limit of starts in a period.
    as_root systemctl reset-failed "$1" 2>/dev/null || true
    if waits_for_us "$1"; then
        # systemd stops the unit, and its start then waits: one job, which no signal to us can undo.
        (
            exec </dev/null >/dev/null 2>&1 7>&- 8>&-
            as_root systemctl restart "$1"
        ) &
        until case $(substate "$1") in start-pre | dead | failed | auto-restart) ;; *) false ;; esac; do
            kill -0 $! 2>/dev/null || wait $! || return 1
            sleep 0.1
        done
        return 0
    fi
    # For other units, a process in its own session waits. It says when it is there: until then, a
    # signal to our process group would end it, too, and the unit must not be stopped yet.
    [ "$(id -u)" = 0 ] && sudo='' || sudo='sudo -n'
    waiting=$(
        setsid sh -c "echo yes; exec >/dev/null; flock -s \"\$0\" true; $sudo systemctl start \"\$1\"" \
            "$root/paused" "$1" </dev/null 2>/dev/null 7>&- 8>&- &
    )
    [ "$waiting" = yes ] || return 1
    # Until `systemctl stop` has done its work, this holds the lock, even without its parent.
    (as_root systemctl stop "$1" || exit 1)
}

# start VERB UNIT: starts or restarts the current release; fails unless it still runs after two seconds.
start() {
    [ -n "$2" ] || return 0
    as_root systemctl reset-failed "$2" 2>/dev/null || true
    as_root systemctl "$1" "$2" || return 1
    sleep 2
    [ "$(systemctl is-active "$2")" = active ] || return 1
}

# why_not UNIT: the last lines of a unit's journal.
why_not() {
    journalctl --no-pager -o cat -n 2 -u "$1" 2>/dev/null | tr '\n' ';' || true
}

# hook COMMAND: runs the user's command in the current release.
hook() {
    [ -n "$1" ] || return 0
    (cd "$root/current" && sh -c "$1" 2>&1 </dev/null)
}

# adopt FOLDER N KEEP SECONDS UNIT COMMAND: runs the golden input in releases/FOLDER. If it passes and
# a byte on stdin confirms it, makes FOLDER release N and current, starts UNIT, runs COMMAND and
# removes old releases. UNIT is paused meanwhile, because the accelerator serves one process at a
# time. However this ends, UNIT runs again: with the new release, or after a failure with the old one.
adopt() {
    folder=$1 number=$2 keep=$3 seconds=$4 unit=$5 command=$6
    # A reader that is gone must not stop the step half-way.
    trap '' PIPE
    exec 8>>"$root/adopting"
    flock -n 8 || fail "another deploy is still finishing"
    before=$(readlink "$root/current" || true)
    before=${before#releases/}
    if [ -n "$unit" ]; then
        exec 7>>"$root/paused"
        timeout 10 flock 7 || fail "$root/paused: still locked after 10 s, perhaps by a start of $unit"
        # An orderly end waits until the unit runs; after any other, nobody waits.
        trap 'exec 7>&-; as_root systemctl start "$unit" || true' EXIT
        pause "$unit" || fail "cannot stop $unit"
    fi
    (golden "$folder" "$seconds") &
    answer=$(await_answer $! "$seconds")
    wait $! || true
    [ "$answer" = y ] || exit 71
    sync
    if [ "$folder" != "$number" ]; then
        cd "$root/releases"
        [ ! -e "$number" ] || fail "release $number already exists"
        mv -T "$folder" "$number"
    fi
    point "$number"
    trap - EXIT
    exec 7>&-
    if ! start start "$unit" || ! said=$(hook "$command"); then
        echo "${said:-$unit does not start: $(why_not "$unit")}" >&2 || true
        if [ -n "$before" ]; then
            point "$before"
            { start restart "$unit" && hook "$command"; } >/dev/null 2>&1 || true
        fi
        exit 72
    fi
    echo switched || true
    prune "$keep" || exit 73
}

# verify N SECONDS: runs the golden input in release N.
verify() {
    trap '' PIPE
    (golden "$1" "$2") &
    [ "$(await_answer $! "$2")" = y ] || exit 71
}

# launch UNIT: starts a unit that is not running.
launch() {
    start start "$1" || fail "$1 does not start: $(why_not "$1")"
}

# logs UNIT LINES [follow]: the last LINES lines of the unit's journal, and with `follow` all new
# lines until the connection ends.
logs() {
    [ -n "$(unit_state "$1")" ] || fail "the board has no unit $1"
    set -- journalctl --no-pager -o short-iso -u "$1" -n "$2" ${3:+-f}
    "$@" &
    trap 'kill $! 2>/dev/null || true' EXIT
    case $* in
    *-f) cat >/dev/null ;;
    *) wait $! ;;
    esac
}

# discard FOLDER: removes an incoming release that failed.
discard() {
    rm -rf "$root/releases/$1"
}

# prune KEEP: removes all but the KEEP newest releases and the current one, and what interrupted
# deploys left behind. A release is renamed before it is removed, so that no half-removed release is
# ever visible.
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
