# The board's side of `edgepipe bitstream install`, one function per step (deploy/every_step.sh), after
# the functions of board/programming.sh. The first argument of every step is SYSTEM. Files that the
# user may not write are written through `sudo -n`.
# shellcheck disable=SC2154  # of system_argument.sh and programming.sh

# look: which service manages the FPGA on this board; changes nothing.
look() {
    folder=$(manager) || exit
    echo "state $(cat "$folder/state")"
    if [ -x "$pynq" ]; then
        echo "by PYNQ"
    elif command -v dfx-mgr-client >/dev/null; then
        echo "by dfx-mgr"
    else
        echo "by fpga_manager"
    fi
}

# store NAME SHA256 RECORD: stores the bitstream from stdin as firmware, completely or not at all.
store() {
    as_root mkdir -p "$firmware" || fail "cannot create $firmware"
    as_root tee "$firmware/.$1" >/dev/null || fail "writing failed: $(df -Pk "$firmware" | tail -n 1)"
    found=$(sha256sum <"$firmware/.$1" | cut -d ' ' -f 1)
    [ "$found" = "$2" ] || fail "changed during the transfer: its digest is $found"
    echo "$3" | as_root tee "$firmware/.$1.json" >/dev/null
    as_root mv -f "$firmware/.$1.json" "$firmware/$1.json"
    as_root mv -f "$firmware/.$1" "$firmware/$1"
    sync
}

# program NAME SHA256 BY: programs the stored file through the service BY, now and at every boot.
program() {
    for uio in "$system"/sys/class/uio/*; do
        [ -r "$uio/name" ] && [ "$(cat "$uio/name")" = vta ] || continue
        # The driver holds this lock while it uses the accelerator.
        as_root flock -n "$system/dev/${uio##*/}" true ||
            fail "a pipeline uses the accelerator (/dev/${uio##*/})"
    done
    program_stored "$1" "$3"
    remember "$1" "$2" "$3"
}

# remember NAME SHA256 BY: from now on, this file is programmed at boot. A power cut at any moment leaves
# either the previous file or this one.
remember() {
    next=boot-a
    [ "$(readlink "$firmware/at-boot" || true)" != boot-a ] || next=boot-b
    as_root rm -rf "${firmware:?}/$next"
    as_root mkdir "$firmware/$next"
    as_root ln "$firmware/$1" "$firmware/$1.json" "$firmware/$next/"
    echo "$1 $2 $3" | as_root tee "$firmware/$next/which" >/dev/null
    sync
    as_root ln -sfn "$next" "$firmware/.at-boot"
    as_root mv -fT "$firmware/.at-boot" "$firmware/at-boot"
    sync
}
