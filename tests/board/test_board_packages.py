"""The Debian packages on the virtual board: installed, upgraded, removed and purged by apt.

Those for armhf have a 32-bit Debian system on that board (armhf_system.py).
"""

import shutil
import subprocess

import pytest
from armhf_system import ArmhfSystem
from needs import BUILD, installed, lacking

import edgepipe

pytestmark = pytest.mark.board

USER = "xilinx"
NEXT = f"{edgepipe.__version__}+next"
# No recommended packages, because the board has no network.
APT = "DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends"
APT += " -o APT::Sandbox::User=root"
UNITS = ("edgepipe-overlay", "edgepipe-bitstream", "edgepipe")
# What edgepipe-setup writes, by the packages' own list of what a purge removes.
WRITTEN = (
    "/etc/udev/rules.d/70-edgepipe.rules",
    "/etc/modules-load.d/edgepipe.conf",
    "/etc/modprobe.d/edgepipe.conf",
    "/etc/sudoers.d/edgepipe",
    *(f"/etc/systemd/system/{unit}.service" for unit in UNITS),
    "/etc/edgepipe/edgepipe.conf",
    "/lib/firmware/edgepipe/vta.dtbo",
    "/usr/local/lib/edgepipe/program-bitstream",
)
# What PYNQ's images have and a plain Debian has not.
PYNQ = f"touch /home/{USER}/REVISION; mkdir -p /usr/local/share/pynq-venv/bin"


DEBIAN = {"aarch64": "arm64", "armhf": "armhf"}
# A board whose system has this architecture.
BOARD = {"aarch64": "ultra96", "armhf": "pynq-z2"}


@pytest.fixture(scope="module")
def packages(architecture, tmp_path_factory):
    """Return a function to the file of a package of this version, or of edgepipe's next one."""
    config = BUILD / architecture / "CPackConfig.cmake"
    if not config.is_file():
        lacking(f"{config} (make build/{architecture}/.built)")
    folder = tmp_path_factory.mktemp("packages")
    cpack = [installed("cpack", "cmake"), "--config", config, "-B", folder]
    subprocess.run(cpack, check=True, capture_output=True)

    def file(name, version=edgepipe.__version__):
        return folder / f"{name}_{version}_{DEBIAN[architecture]}.deb"

    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "-R", file("edgepipe"), tree], check=True)
    control = tree / "DEBIAN/control"
    now = f"Version: {edgepipe.__version__}\n"
    assert now in control.read_text()
    control.write_text(control.read_text().replace(now, f"Version: {NEXT}\n"))
    build = ["dpkg-deb", "-Zgzip", "-b", "--root-owner-group", tree, file("edgepipe", NEXT)]
    subprocess.run(build, check=True, capture_output=True)
    shutil.rmtree(tree)
    return file


@pytest.fixture(scope="module")
def board(virtual_board, architecture, packages):
    """Yield the system with the packages' files in /root, and the user of a PYNQ image."""
    system = virtual_board
    if architecture == "armhf":
        system = ArmhfSystem(board=virtual_board)
        system.start()
    send(system, packages("edgepipe"), "edgepipe.deb")
    send(system, packages("edgepipe-dev"), "edgepipe-dev.deb")
    send(system, packages("edgepipe", NEXT), "next.deb")
    must(system, f"id -u {USER} >/dev/null 2>&1 || useradd -m -p '*' {USER}")
    yield system
    must(system, f"{APT} purge edgepipe edgepipe-dev; rm -rf /root/*.deb; sync")
    if architecture == "armhf":
        system.stop()


def send(board, file, name):
    must(board, f"cat > /root/{name}", stdin=file.read_bytes())


def must(board, command, stdin=b""):
    done = board.run([command], stdin=stdin, deadline_s=240)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return done.stdout.decode()


def there(board, paths):
    """Return those of the paths that exist on the board."""
    command = f"for path in {' '.join(paths)}; do [ ! -e $path ] || echo $path; done"
    return must(board, command).split()


@pytest.mark.systems
@pytest.mark.parametrize("layout", ["debian", "pynq"])
def test_apt_installs_upgrades_removes_and_purges(board, architecture, layout):
    if layout == "pynq":
        must(board, PYNQ)
    said = must(board, f"{APT} install /root/edgepipe.deb /root/edgepipe-dev.deb 2>&1")
    assert "run as root: edgepipe-setup --board ultra96 (or pynq-z2)" in said
    assert there(board, WRITTEN) == []
    assert must(board, "dpkg --print-architecture") == f"{DEBIAN[architecture]}\n"
    for program in ("run", "cam", "rpcd"):
        assert f"usage: edgepipe-{program}" in must(board, f"edgepipe-{program} --help 2>&1")
    assert "edgepipe-targets.cmake" in must(board, "ls /usr/lib/cmake/edgepipe")

    said = must(board, f"edgepipe-setup --board {BOARD[architecture]}")
    assert ("(PYNQ image)" in said) == (layout == "pynq")
    assert there(board, WRITTEN) == list(WRITTEN)
    assert "\n0 changes" in must(board, "edgepipe-setup")
    options = "EDGEPIPE_OPTIONS=--camera /dev/video7\n"
    must(board, "cat > /etc/edgepipe/edgepipe.conf", stdin=options.encode())

    said = must(board, f"rm /etc/modprobe.d/edgepipe.conf; {APT} install /root/next.deb 2>&1")
    assert "change   /etc/modprobe.d/edgepipe.conf" in said  # the set-up was repeated
    assert must(board, "dpkg-query -W -f '${Version}' edgepipe") == NEXT
    assert must(board, "cat /etc/edgepipe/edgepipe.conf") == options

    must(board, f"{APT} remove edgepipe 2>&1; mkdir -p /home/{USER}/edgepipe/releases")
    assert there(board, WRITTEN) == list(WRITTEN)
    links = [f"/etc/systemd/system/multi-user.target.wants/{unit}.service" for unit in UNITS]
    assert there(board, links) == []
    said = must(board, f"{APT} install /root/next.deb 2>&1")
    assert "change   edgepipe.service starts at boot" in said
    must(board, f"{APT} purge edgepipe edgepipe-dev 2>&1")
    assert there(board, [*WRITTEN, "/etc/edgepipe", "/usr/share/edgepipe", *links]) == []
    assert there(board, [f"/home/{USER}/edgepipe/releases"]) != []
    must(board, f"rm -rf /home/{USER}/edgepipe /home/{USER}/REVISION /usr/local/share/pynq-venv")
