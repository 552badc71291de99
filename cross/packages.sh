#!/bin/sh
# Install the Debian packages for building and testing edgepipe; does nothing if all are installed.
# With an argument, install those that only `make bench-runtime` (bench), `make bench-counts` (counts),
# `make deb` (deb) or `make fuzz` (fuzz) needs.
set -eu

packages="cmake ninja-build g++ g++-aarch64-linux-gnu g++-arm-linux-gnueabihf python3-venv
    nlohmann-json3-dev libgtest-dev libturbojpeg0-dev libmosquitto-dev mosquitto ffmpeg chromium chromium-driver firefox-esr
    pkg-config libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev gstreamer1.0-tools gstreamer1.0-plugins-base
    openssh-client openssh-server qemu-user-static qemu-system-arm kmod make xz-utils
    rauc squashfs-tools dbus-daemon libubootenv-tool tcl
    cpio device-tree-compiler e2fsprogs shellcheck systemd clang-format clang-tidy dataset-fashion-mnist"
case ${1:-} in
bench) packages="libboost-dev libgstreamer1.0-dev pkg-config" ;;
counts) packages="qemu-user debian-archive-keyring" ;;
deb) packages="lintian" ;;
fuzz) packages="clang libclang-rt-14-dev" ;;
esac

missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
    echo "edgepipe needs Debian packages that are not installed; as root, run:" >&2
    echo "    apt-get install -y$missing" >&2
    exit 1
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # a list of words
apt-get install -y -qq --no-install-recommends $missing >/dev/null
