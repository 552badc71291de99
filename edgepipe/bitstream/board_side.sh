# The board's side of `edgepipe bitstream install`, one function a step (deploy/every_step.sh). Every
# step's first argument, SYSTEM, goes before /lib, /sys, /dev and /run; it is empty on a board. What a
# user may not write is written through `sudo -n`.
#
# SYSTEM/lib/firmware/edgepipe/NAME, NAME.json   what was installed, and its record
# SYSTEM/run/edgepipe/bitstream.json             the record of what is in the logic now; like the
#                                                logic's content it is gone when the board restarts
system=$1
shift
firmware=$system/lib/firmware/edgepipe
programmed=$system/run/edgepipe/bitstream.json

# manager: the folder of the logic's fpga_manager.
manager() {
    for folder in "$system"/sys/class/fpga_manager/*; do
        [ -e "$folder/state" ] || continue
        [ -e "$folder/firmware" ] || fail "${folder##*/} has no file 'firmware', so this kernel" \
            "programs the logic through device-tree overlays only"
        echo "$folder"
        return
    done
    fail "there is no fpga_manager"
}

pynq=$system/usr/local/share/pynq-venv/bin/python3

# look: what keeps account of the logic on this board; changes nothing.
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

# store NAME SHA256 RECORD: puts the bitstream on stdin among the firmware, whole or not at all.
store() {
    as_root mkdir -p "$firmware" || fail "cannot make $firmware; log in as root, or allow sudo -n"
    as_root tee "$firmware/.$1" >/dev/null || fail "writing failed: $(df -Pk "$firmware" | tail -n 1)"
    found=$(sha256sum <"$firmware/.$1" | cut -d ' ' -f 1)
    [ "$found" = "$2" ] || fail "altered on the way: its digest is $found"
    echo "$3" | as_root tee "$firmware/$1.json" >/dev/null
    as_root mv -f "$firmware/.$1" "$firmware/$1"
    sync
}

# through_manager NAME: has the kernel program what was stored.
through_manager() {
    if [ -e "$folder/flags" ]; then echo 0 | as_root tee "$folder/flags" >/dev/null; fi
    echo "edgepipe/$1" | as_root tee "$folder/firmware" >/dev/null ||
        fail "fpga_manager refuses it, its state is '$(cat "$folder/state")'"
}

# program NAME BY: programs what was stored, by what keeps account of the logic on this board. No
# record says what the logic holds until it is done.
program() {
    folder=$(manager)
    for uio in "$system"/sys/class/uio/*; do
        [ -r "$uio/name" ] && [ "$(cat "$uio/name")" = vta ] || continue
        # The driver holds this lock as long as it has the accelerator.
        as_root flock -n "$system/dev/${uio##*/}" true ||
            fail "a pipeline uses the accelerator (/dev/${uio##*/})"
    done
    as_root mkdir -p "${programmed%/*}"
    as_root rm -f "$programmed"
    case $2 in
    PYNQ)
        code='import sys; from pynq import Bitstream; Bitstream(sys.argv[1]).download()'
        said=$(as_root env XILINX_XRT=/usr "$pynq" -c "$code" "$firmware/$1" 2>&1) ||
            fail "PYNQ refuses it: $(echo "$said" | tail -n 1)"
        ;;
    dfx-mgr)
        # Its daemon would go on believing that what it has loaded is there.
        as_root dfx-mgr-client -remove >/dev/null 2>&1 || true
        through_manager "$1"
        ;;
    *) through_manager "$1" ;;
    esac
    state=$(cat "$folder/state")
    [ "$state" = operating ] || fail "fpga_manager's state is '$state' afterwards"
    as_root cp "$firmware/$1.json" "$programmed.new"
    as_root mv -f "$programmed.new" "$programmed"
}
