#!/bin/sh
# Set up a board once, so that edgepipe's pipelines run on it without root: a PYNQ image (v2.7 to
# 3.1), or Debian or Ubuntu on an Ultra96. Copy the folder board/ to the board, then there, as root:
#
#     sh setup.sh --board ultra96 [--user USER] [--root DIR] [--dry-run]
#
#   --board NAME   ultra96 or pynq-z2; selects the overlay and the number of cores (NAME.toml)
#   --user USER    user who deploys and runs pipelines (default: the caller of sudo, else xilinx)
#   --root DIR     folder for `edgepipe deploy`'s releases (default: edgepipe in the user's home)
#   --allowed-signers FILE  run only bundles that one of these signed (ALLOWED SIGNERS in ssh-keygen(1))
#   --versions-only-grow    and refuse versions below the highest that the board has run
#   --any-bundle            run every bundle. Without one of these three, the script asks if there is a
#                           terminal and no policy yet; otherwise it leaves the policy as it is
#   --dry-run      show what would change, change nothing
#   --stop         stop the services and do not start them at boot; the package's removal does this
#   --system DIR   prefix of /etc, /lib, /proc and /sys, for tests (default: empty)
#
# Every step changes only what differs, so you can run it again: /etc/edgepipe/setup.conf has the board,
# user and folder of the last run, which are then the defaults. It needs no network and installs no
# packages. Exit codes: 0 set up, 1 something could not be done, 2 wrong use.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
board='' user='' root='' dry='' system='' signers='' grow='' any='' stop=''
changed=0 lacking=0

usage() {
    sed -n '2,/^set -eu/{s/^# \{0,1\}//;/^set -eu/d;p;}' "$0" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --board | --user | --root | --system | --allowed-signers)
        [ $# -ge 2 ] || usage
        case $1 in
        --board) board=$2 ;;
        --user) user=$2 ;;
        --root) root=$2 ;;
        --system) system=$2 ;;
        --allowed-signers) signers=$2 ;;
        esac
        shift 2
        ;;
    --dry-run) dry=yes && shift ;;
    --versions-only-grow) grow=yes && shift ;;
    --any-bundle) any=yes && shift ;;
    --stop) stop=yes && shift ;;
    *) usage ;;
    esac
done

fail() {
    echo "error: $1" >&2
    [ $# -lt 2 ] || echo "hint: $2" >&2
    exit 1
}

# lacks WHAT REMEDY: something that this script cannot provide.
lacks() {
    echo "missing  $1"
    echo "         $2"
    lacking=$((lacking + 1))
}

# change WHAT COMMAND...: reports the change and makes it, unless this is a dry run.
change() {
    echo "change   $1"
    shift
    changed=$((changed + 1))
    [ -n "$dry" ] || "$@"
}

# install_file MODE TARGET: writes standard input to TARGET, unless TARGET already has this content.
install_file() {
    text=$(cat)
    if [ -f "$system$2" ] && [ "$(cat "$system$2")" = "$text" ]; then
        echo "ok       $2"
        return
    fi
    change "$2" write_file "$1" "$system$2" "$text"
}

write_file() {
    mkdir -p "$(dirname "$2")"
    printf '%s\n' "$3" >"$2.new"
    chmod "$1" "$2.new"
    mv "$2.new" "$2"
}

copy_blob() {
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2.new"
    chmod 0644 "$2.new"
    mv "$2.new" "$2"
}

units="edgepipe-overlay.service edgepipe-bitstream.service edgepipe.service"
if [ -n "$stop" ]; then
    for unit in $units; do
        [ ! -e "$system/etc/systemd/system/$unit" ] || systemctl disable --quiet --now "$unit" || true
    done
    exit 0
fi

# ---- board, user and folders

settings=/etc/edgepipe/setup.conf
# setting NAME: its value in the last run.
setting() {
    sed -n "s/^$1=//p" "$system$settings" 2>/dev/null || true
}
last=$(setting board)
if [ -z "$board" ] || [ "$board" = "$last" ]; then
    board=$last
    [ -n "$user" ] || user=$(setting user)
    [ -n "$root" ] || [ "$user" != "$(setting user)" ] || root=$(setting root)
fi
[ -n "$board" ] || usage
description=$here/$board.toml
overlay=$here/$board-overlay.dts
if [ ! -f "$description" ] || [ ! -f "$overlay" ]; then
    fail "board $board: no $board.toml or no $board-overlay.dts in $here" \
        "known boards: ultra96, pynq-z2"
fi
cores=$(sed -n 's/^cores = \([0-9][0-9]*\).*/\1/p' "$description")
architecture=$(sed -n 's/^architecture = "\(.*\)".*/\1/p' "$description")
case $(uname -m) in
aarch64) machine=aarch64 ;;
armv7l | armv8l) machine=armhf ;;
*) machine=$(uname -m) ;;
esac
[ "$machine" = "$architecture" ] || [ -n "$system" ] ||
    fail "board $board: the board is $architecture, this machine is $machine" \
        "copy this folder to the board, and run setup.sh there"
[ -n "$dry" ] || [ -n "$system" ] || [ "$(id -u)" = 0 ] || fail "must be root" "sudo sh setup.sh ..."

if [ -z "$user" ]; then
    user=${SUDO_USER:-xilinx}
    [ "$user" != root ] || user=xilinx
fi
entry=$(getent passwd "$user") || fail "user $user: does not exist" "name one with --user"
[ -n "$root" ] || root=$(echo "$entry" | cut -d: -f6)/edgepipe
case $root in
/*) ;;
*) fail "--root $root: expected an absolute path" ;;
esac

release=$(sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\).*/\1/p' "$system/etc/os-release" 2>/dev/null || true)
image=${release:-unknown}
[ ! -e "$system/home/xilinx/REVISION" ] || image="$image (PYNQ image)"
echo "board    $board, $image, user $user, releases in $root"

# ---- rights: a group, and udev rules that give it the devices

getent group edgepipe >/dev/null || change "group edgepipe" groupadd --system edgepipe
# The service has its own user, who cannot change releases.
getent passwd edgepipe >/dev/null ||
    change "user edgepipe" useradd --system --gid edgepipe --home-dir /nonexistent \
        --no-create-home --shell /usr/sbin/nologin edgepipe
# video is the group of cameras, render that of zocl, if it exists.
for member in "$user" edgepipe; do
    for group in edgepipe video render; do
        [ "$group" != render ] || getent group render >/dev/null || continue
        case " $(id -nG "$member" 2>/dev/null || true) " in
        *" $group "*) echo "ok       $member in group $group" ;;
        *) change "$member in group $group" usermod -a -G "$group" "$member" ;;
        esac
    done
done
install_file 0644 /etc/udev/rules.d/70-edgepipe.rules <"$here/70-edgepipe.rules"

# ---- kernel modules, loaded at every boot

install_file 0644 /etc/modules-load.d/edgepipe.conf <<END
# uio_pdrv_genirq gives user space the accelerator's registers, u-dma-buf its buffer.
uio_pdrv_genirq
u-dma-buf
END
install_file 0644 /etc/modprobe.d/edgepipe.conf <<END
options uio_pdrv_genirq of_id=generic-uio
END
modinfo uio_pdrv_genirq >/dev/null 2>&1 ||
    lacks "kernel module uio_pdrv_genirq" "use a kernel that has CONFIG_UIO_PDRV_GENIRQ"
if ! modinfo u-dma-buf >/dev/null 2>&1; then
    if [ -d "$system/sys/bus/platform/drivers/zocl-drm" ]; then
        echo "ok       no module u-dma-buf; buffers come from XRT's zocl"
    else
        lacks "kernel module u-dma-buf, and XRT's zocl in its place" \
            "build github.com/ikwzm/udmabuf against this kernel's headers, then modprobe u-dma-buf"
    fi
fi

# ---- the device tree: registers and buffer

blob=$here/$board-overlay.dtbo
compiled=''
if [ ! -f "$blob" ]; then
    if command -v dtc >/dev/null; then
        compiled=$(mktemp)
        trap 'rm -f "$compiled"' EXIT
        dtc -q -@ -I dts -O dtb -o "$compiled" "$overlay" || fail "$overlay: dtc cannot compile it"
        blob=$compiled
    else
        fail "$blob: missing, and this board has no dtc to compile it" \
            "copy the folder that \`make board\` writes to build/board, which contains it"
    fi
fi
target=$system/lib/firmware/edgepipe/vta.dtbo
if cmp -s "$blob" "$target"; then
    echo "ok       ${target#"$system"}"
else
    change "${target#"$system"}" copy_blob "$blob" "$target"
fi
install_file 0755 /usr/local/lib/edgepipe/apply-overlay <"$here/apply-overlay.sh"
install_file 0644 /etc/systemd/system/edgepipe-overlay.service <"$here/edgepipe-overlay.service"

# ---- the bitstream, at boot

install_file 0644 /usr/local/lib/edgepipe/programming.sh <"$here/programming.sh"
install_file 0755 /usr/local/lib/edgepipe/program-bitstream <"$here/program-bitstream.sh"
install_file 0644 /etc/systemd/system/edgepipe-bitstream.service <"$here/edgepipe-bitstream.service"
if [ -r "$system/proc/config.gz" ] && ! zcat "$system/proc/config.gz" | grep -q '^CONFIG_OF_CONFIGFS=y'; then
    lacks "device-tree overlays at run time: this kernel lacks CONFIG_OF_CONFIGFS" \
        "merge vta.dtbo into the boot loader's device tree with fdtoverlay (docs/guides/board.md)"
fi

# ---- the service

install_file 0644 /etc/systemd/system/edgepipe.service <<END
$(sed -e "s|@ROOT@|$root|g" -e "s|@CORES@|0-$((cores - 1))|g" "$here/edgepipe.service")
END
if [ ! -e "$system/etc/edgepipe/edgepipe.conf" ]; then
    install_file 0644 /etc/edgepipe/edgepipe.conf <<END
# Options of edgepipe-cam in edgepipe.service; \`edgepipe-cam --help\` lists them.
EDGEPIPE_OPTIONS=--camera /dev/video0
END
fi
systemctl=$(command -v systemctl || echo /usr/bin/systemctl)
install_file 0440 /etc/sudoers.d/edgepipe <<END
# \`edgepipe deploy\` stops the service for its golden run and restarts it after the switch.
$user ALL=(root) NOPASSWD: $systemctl start edgepipe, $systemctl stop edgepipe, \\
    $systemctl restart edgepipe, $systemctl reset-failed edgepipe
END

# ---- which bundles the board runs

policy=/etc/edgepipe/policy
if [ -z "$signers$grow$any$dry" ] && [ -t 0 ] && [ ! -e "$system$policy" ]; then
    echo "A bundle is native code. The board can refuse bundles that no allowed signer has signed."
    printf 'File of allowed signers (empty: accept every bundle): '
    read -r signers
    [ -n "$signers" ] || any=yes
fi
[ -z "$any" ] || [ -z "$signers$grow" ] || fail "--any-bundle: cannot be combined with the other two"
[ -z "$grow" ] || [ -n "$signers" ] ||
    fail "--versions-only-grow: needs signatures" "name the signers with --allowed-signers FILE"
if [ -n "$signers" ]; then
    [ -r "$signers" ] || fail "--allowed-signers $signers: cannot be read"
    grep -q '^[^#].* \(ssh\|sk\|ecdsa\)-' "$signers" ||
        fail "--allowed-signers $signers: contains no key" "a line is: alice@example.com ssh-ed25519 AAAA..."
    command -v ssh-keygen >/dev/null || lacks ssh-keygen "install openssh-client; it verifies signatures"
    install_file 0644 /etc/edgepipe/allowed_signers <"$signers"
fi
if [ -n "$signers$any" ]; then
    install_file 0644 "$policy" <<END
# Which bundles edgepipe's programs and \`edgepipe deploy\` accept (docs/security.md).
require_signature=$([ -n "$signers" ] && echo yes || echo no)
versions_only_grow=${grow:-no}
allowed_signers=/etc/edgepipe/allowed_signers
highest_version=/var/lib/edgepipe/highest_version
END
fi
state=/var/lib/edgepipe
if [ -n "$grow" ] && [ ! -d "$system$state" ]; then
    change "$state" install -d -o "$user" -m 0755 "$system$state"
fi

# ---- requirements that only the image can provide

for tool in flock sha256sum tar timeout; do
    command -v "$tool" >/dev/null || lacks "$tool" "deploy needs it (coreutils, tar, util-linux)"
done
free=$(sed -n 's/^CmaTotal: *\([0-9]*\) kB$/\1/p' "$system/proc/meminfo" 2>/dev/null || true)
[ "${free:-0}" -ge 65536 ] ||
    lacks "contiguous memory: ${free:-0} KiB of CMA, expected 65536 or more" \
        "add cma=128M to the kernel's command line, in the boot loader or bootargs"

install_file 0644 "$settings" <<END
board=$board
user=$user
root=$root
END

if [ "$changed" != 0 ] && [ -z "$dry" ]; then
    # These fail in an image that is not running.
    udevadm control --reload 2>/dev/null || true
    systemctl daemon-reload 2>/dev/null || true
fi
for unit in $units; do
    systemctl is-enabled --quiet "$unit" 2>/dev/null || change "$unit starts at boot" systemctl enable --quiet "$unit"
done

echo "$changed changes$([ -z "$dry" ] || echo ' would be made'), $lacking missing"
[ "$changed" = 0 ] || [ -n "$dry" ] || echo "reboot the board, then run: edgepipe doctor --host $user@BOARD"
[ "$lacking" = 0 ]
