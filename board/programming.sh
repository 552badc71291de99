# How a board's FPGA is programmed with a stored bitstream: functions that `edgepipe bitstream install`
# sends to the board, and that program-bitstream uses there at boot. The caller defines SYSTEM (a prefix
# of /lib, /sys and /run, for tests), `fail MESSAGE...` and `as_root COMMAND...`.
#
# SYSTEM/lib/firmware/edgepipe/NAME, NAME.json   what was installed, and its record
# SYSTEM/lib/firmware/edgepipe/at-boot           link to boot-a or boot-b: what is programmed at boot,
#                                                its record, and the file `which`: NAME, SHA-256, BY
# SYSTEM/run/edgepipe/bitstream.json             the record of the programmed bitstream; lost at a
#                                                reboot, like the FPGA's contents
# shellcheck disable=SC2154  # the caller's
firmware=$system/lib/firmware/edgepipe
programmed=$system/run/edgepipe/bitstream.json
pynq=$system/usr/local/share/pynq-venv/bin/python3

# manager: the folder of the FPGA's fpga_manager.
manager() {
    for folder in "$system"/sys/class/fpga_manager/*; do
        [ -e "$folder/state" ] || continue
        [ -e "$folder/firmware" ] || fail "${folder##*/} has no file 'firmware', so this kernel programs the FPGA only through device-tree overlays"
        echo "$folder"
        return
    done
    fail "there is no fpga_manager"
}

# through_manager NAME: lets the kernel program the stored file.
through_manager() {
    if [ -e "$folder/flags" ]; then echo 0 | as_root tee "$folder/flags" >/dev/null; fi
    echo "edgepipe/$1" | as_root tee "$folder/firmware" >/dev/null || {
        state=$(cat "$folder/state")
        fail "fpga_manager refuses the file; its state is '$state'"
    }
}

# program_stored NAME BY: programs the file through the service BY. Removes the record of the FPGA's
# contents first, and writes the new one at the end.
program_stored() {
    folder=$(manager) || exit
    as_root mkdir -p "${programmed%/*}"
    as_root rm -f "$programmed"
    case $2 in
    PYNQ)
        code='import sys; from pynq import Bitstream; Bitstream(sys.argv[1]).download()'
        said=$(as_root env XILINX_XRT=/usr "$pynq" -c "$code" "$firmware/$1" 2>&1) || {
            reason=$(echo "$said" | tail -n 1)
            fail "PYNQ refuses the file: $reason"
        }
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
