# The board's side of `edgepipe bitstream install`, one function per step (deploy/every_step.sh). The
# first argument of every step, SYSTEM, is a prefix of /lib, /sys, /dev and /run, for tests. Files that
# the user may not write are written through `sudo -n`.
#
# SYSTEM/lib/firmware/edgepipe/NAME, NAME.json   what was installed, and its record
# SYSTEM/run/edgepipe/bitstream.json             the record of the programmed bitstream; lost at a
#                                                reboot, like the FPGA's contents
system=$1
shift
firmware=$system/lib/firmware/edgepipe
programmed=$system/run/edgepipe/bitstream.json

# manager: the folder of the FPGA's fpga_manager.
manager() {
    for folder in "$system"/sys/class/fpga_manager/*; do
        [ -e "$folder/state" ] || continue
        [ -e "$folder/firmware" ] || fail "${folder##*/} has no file 'firmware', so this kernel" \
            "programs the FPGA only through device-tree overlays"
        echo "$folder"
        return
    done
    fail "there is no fpga_manager"
}

pynq=$system/usr/local/share/pynq-venv/bin/python3

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
    echo "$3" | as_root tee "$firmware/$1.json" >/dev/null
    as_root mv -f "$firmware/.$1" "$firmware/$1"
    sync
}

# through_manager NAME: lets the kernel program the stored file.
through_manager() {
    if [ -e "$folder/flags" ]; then echo 0 | as_root tee "$folder/flags" >/dev/null; fi
    echo "edgepipe/$1" | as_root tee "$folder/firmware" >/dev/null ||
        fail "fpga_manager refuses the file; its state is '$(cat "$folder/state")'"
}

# program NAME BY: programs the stored file through the service BY. Removes the record of the FPGA's
# contents first, and writes the new one at the end.
program() {
    folder=$(manager)
    for uio in "$system"/sys/class/uio/*; do
        [ -r "$uio/name" ] && [ "$(cat "$uio/name")" = vta ] || continue
        # The driver holds this lock while it uses the accelerator.
        as_root flock -n "$system/dev/${uio##*/}" true ||
            fail "a pipeline uses the accelerator (/dev/${uio##*/})"
    done
    as_root mkdir -p "${programmed%/*}"
    as_root rm -f "$programmed"
    case $2 in
    PYNQ)
        code='import sys; from pynq import Bitstream; Bitstream(sys.argv[1]).download()'
        said=$(as_root env XILINX_XRT=/usr "$pynq" -c "$code" "$firmware/$1" 2>&1) ||
            fail "PYNQ refuses the file: $(echo "$said" | tail -n 1)"
        ;;
    dfx-mgr)
        # Otherwise its daemon would assume that its design is still loaded.
        as_root dfx-mgr-client -remove >/dev/null 2>&1 || true
        through_manager "$1"
        ;;
    *) through_manager "$1" ;;
    esac
    state=$(cat "$folder/state")
    [ "$state" = operating ] || fail "after programming, fpga_manager's state is '$state'"
    as_root cp "$firmware/$1.json" "$programmed.new"
    as_root mv -f "$programmed.new" "$programmed"
}
