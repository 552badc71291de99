# The board's side of the doctor, one function per step (deploy/every_step.sh). It changes nothing on
# the board. Every finding is one line: a key, a blank, values. Missing things print nothing. The functions
# of readings.sh come before these.
# shellcheck disable=SC2154,SC2164  # every_step.sh sets root, and -e

# access FILE: this user's rights (r, w, rw or none), or "missing".
access() {
    rights=
    [ ! -r "$1" ] || rights=r
    [ ! -w "$1" ] || rights=${rights}w
    [ -e "$1" ] || rights=missing
    echo "${rights:-none}"
}

# survey SYSTEM: everything that can be read without programming or running anything. SYSTEM is a
# prefix of /sys, /dev, /proc and /run, for tests.
survey() {
    system=$1
    echo "machine $(uname -m)"
    echo "kernel $(uname -r)"
    echo "user $(id -un 2>/dev/null || id -u)"
    echo "libc $(getconf GNU_LIBC_VERSION 2>/dev/null || true)"
    echo "os $(sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\).*/\1/p' "$system/etc/os-release" 2>/dev/null)"
    echo "model $(tr -d '\0' <"$system/proc/device-tree/model" 2>/dev/null || true)"
    for module in uio_pdrv_genirq u_dma_buf udmabuf; do
        [ ! -d "$system/sys/module/$module" ] || echo "module $module"
    done
    sed -n 's/^\(Cma[A-Z][a-z]*\): *\([0-9]*\) kB$/\1 \2/p' "$system/proc/meminfo" 2>/dev/null || true
    for folder in "$system"/sys/class/uio/*; do
        [ -r "$folder/name" ] || continue
        device=${folder##*/}
        echo "uio $device $(access "$system/dev/$device") $(first "$folder/maps/map0/size")" \
            "$(first "$folder/name")"
    done
    for folder in "$system"/sys/class/u-dma-buf/* "$system"/sys/class/udmabuf/*; do
        [ -r "$folder/size" ] || continue
        device=${folder##*/}
        echo "buffer $device $(access "$system/dev/$device") $(first "$folder/size")" \
            "$(access "$folder/sync_for_device") $(first "$folder/dma_coherent")"
    done
    for folder in "$system"/sys/class/drm/renderD*; do
        case $(readlink "$folder/device/driver" 2>/dev/null || true) in
        */zocl*) echo "zocl dri/${folder##*/} $(access "$system/dev/dri/${folder##*/}")" ;;
        esac
    done
    for device in "$system"/dev/dma_heap/*; do
        [ ! -e "$device" ] || echo "heap dma_heap/${device##*/} $(access "$device")"
    done
    echo "capabilities $(sed -n 's/^CapEff:[[:space:]]*//p' "$system/proc/self/status" 2>/dev/null)"
    for folder in "$system"/sys/class/video4linux/*; do
        [ -r "$folder/name" ] || continue
        device=${folder##*/}
        echo "camera $device $(access "$system/dev/$device") $(first "$folder/name")"
    done
    for folder in "$system"/sys/class/fpga_manager/*; do
        [ -r "$folder/state" ] || continue
        echo "manager ${folder##*/} $(first "$folder/state")"
    done
    record=$(first "$system/run/edgepipe/bitstream.json")
    [ -z "$record" ] || echo "bitstream $record"
    readings "$system"
    current=$(readlink "$root/current" 2>/dev/null || true)
    if [ -n "$current" ]; then
        echo "release ${current#releases/} $(first "$root/current/release.json")"
    fi
    echo "df $(df -Pk "$(folder_there "$root")" | tail -n 1)"
}

# interrupts: the number that the accelerator has raised since boot.
interrupts() {
    awk '$NF == "vta" { for (i = 2; i < NF && $i ~ /^[0-9]+$/; i++) n += $i; seen = 1 }
         END { if (seen) print n + 0; else print "none" }' /proc/interrupts
}

# self_test RUNS: runs the program in the tar archive on stdin, RUNS times on each image, with the
# edgepipe-vta-run in it. Prints what the accelerator's own registers say before that, then the
# result of each image and the digest of its memory afterwards.
self_test() {
    folder=$(mktemp -d) || exit 70
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 70' HUP INT TERM
    cd "$folder"
    tar -x -o -f -
    if hardware=$(timeout 20 ./edgepipe-vta-run --accelerator=accelerator.json --registers \
        2>error); then
        echo "hardware $hardware"
    fi
    echo "before $(interrupts)"
    for memory in *.memory; do
        name=${memory%.memory}
        if report=$(timeout 60 ./edgepipe-vta-run --accelerator=accelerator.json \
            --insns=program.insns --memory="$memory" --output="$name.after" --runs="$1" \
            --deadline-ms=500 2>error); then
            echo "ran $name $(sha256sum <"$name.after" | cut -d ' ' -f 1) $report"
        else
            said=$(grep '^edgepipe-vta-run: error: ' error | tail -n 1)
            echo "failed $name ${said:-$(tail -n 1 error)}"
        fi
    done
    echo "after $(interrupts)"
}
