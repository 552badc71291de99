"""board/edgepipe.service with all its restrictions under a real systemd, running edgepipe-cam."""

import fcntl
import os
import shutil
import stat
import subprocess
import urllib.request

import cam_programs
import pytest
from needs import built
from ports import free_port
from signing_keys import allow, make_key
from systemd_machine import SystemdMachine, eventually, installed_unit

from edgepipe.bundle import signature
from edgepipe.deploy import board_script
from edgepipe.top import snapshot

pytestmark = pytest.mark.sim

# As setup.sh leaves them to the user who deploys.
HIGHEST = ("/var/lib/edgepipe", "/var/lib/edgepipe/highest_version")
# Without BPF, systemd ignores SocketBindDeny=, as the unit says. The filter of addresses, the last
# probe, then keeps the network away from a port that it should not have.
HAS_BPF = (
    "+BPF_FRAMEWORK"
    in subprocess.run(["systemctl", "--version"], capture_output=True, text=True).stdout
)
BIND_ANOTHER_PORT = (
    '$PYTHON -c \'import socket; socket.socket().bind(("127.0.0.1", 50123)); print("bound")\''
)
# What the unit tries, and the result. Each line runs separately.
PROBES = {
    "id -un": "edgepipe",
    "touch $ROOT/mine": "Read-only file system",
    "touch /etc/mine": "Read-only file system",
    "touch /var/lib/edgepipe-cam/mine && echo written": "written",
    "touch /tmp/mine && echo written": "written",
    "touch /dev/shm/edgepipe-test-probe && rm /dev/shm/edgepipe-test-probe && echo written": (
        "written"
    ),
    "ls -A /home | wc -l": "0",
    "cat /proc/1/cmdline": "No such file or directory",
    "echo 1 > /proc/sys/vm/drop_caches": "cannot create",
    "unshare --user true": "Operation not permitted",
    "mount -t tmpfs none /tmp || echo refused": "refused",
    "chown root /var/lib/edgepipe-cam/mine": "Operation not permitted",
    "chmod 4755 /var/lib/edgepipe-cam/mine": "Operation not permitted",
    "chrt --fifo 1 true": "Operation not permitted",
    "taskset 1 true && echo pinned": "pinned",
    "head -c 1 $ROOT/kmsg || echo refused": "refused",  # open to all, but not in DeviceAllow
    "$PYTHON -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)'": (
        "Address family not supported"
    ),
    "$PYTHON -c 'import mmap; mmap.mmap(-1, 4096, prot=7)'": "Operation not permitted",
    BIND_ANOTHER_PORT: "Operation not permitted" if HAS_BPF else "bound",
    '$PYTHON -c \'import socket; s = socket.socket(type=2); s.sendto(b"", ("192.0.2.1", 9))\'': (
        "Operation not permitted"
    ),
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """Yield a machine with release 1 and its unit, which shows its page on a free port."""
    folder = tmp_path_factory.mktemp("machine")
    for parent in folder.parents[:2]:
        parent.chmod(0o755)  # pytest's own folders are closed to other users
    machine = SystemdMachine(folder)
    root = folder / "edgepipe"
    release = root / "releases/1"
    (release / "bin").mkdir(parents=True)
    shutil.copy(built("edgepipe-cam"), release / "bin")
    bundle = cam_programs.make_bundle(folder)
    shutil.copytree(bundle, release / "bundle")
    os.mknod(root / "kmsg", 0o666 | stat.S_IFCHR, os.makedev(1, 11))
    (root / "kmsg").chmod(0o666)
    (root / "current").symlink_to("releases/1")
    (root / "paused").touch()
    machine.port = free_port()
    text = installed_unit(root, cores="0")
    options = f"--source synthetic --device simulator --http 127.0.0.1:{machine.port}"
    options += f" --policy {root}/policy"
    sign_and_demand(release / "bundle", root)
    text = text.replace("--camera /dev/video0", options)
    (machine.units / "edgepipe.service").write_text(text)
    drop_in = machine.units / "edgepipe.service.d"
    drop_in.mkdir()
    (drop_in / "page.conf").write_text(f"[Service]\nSocketBindAllow=tcp:{machine.port}\n")
    machine.text, machine.root = text, root
    folder, file = HIGHEST
    machine.must("sh", "-c", f"mkdir {folder}; echo 0 >{file}; chown -R nobody {folder}")
    machine.must("systemctl", "daemon-reload")
    yield machine
    machine.close()


def sign_and_demand(bundle, root):
    """Sign a bundle, and write a policy that demands its signature, next to the releases."""
    key = make_key(root / "key")
    signature.sign(bundle, key)
    signers = allow(root, "alice@example.com", key)
    policy = f"require_signature=yes\nversions_only_grow=yes\nallowed_signers={signers}\n"
    (root / "policy").write_text(policy)


def test_the_program_runs_with_every_restriction(machine):
    machine.must("systemctl", "start", "edgepipe")
    eventually(
        lambda: "frames" in machine.property("edgepipe", "StatusText"), "no frames are reported"
    )
    assert machine.property("edgepipe", "User") == "edgepipe"
    pid = machine.property("edgepipe", "MainPID")
    status = machine.must("cat", f"/proc/{pid}/status")
    assert "\nSeccomp:\t2\n" in status
    assert "\nNoNewPrivs:\t1\n" in status
    assert "\nCapBnd:\t0000000000000000\n" in status
    with urllib.request.urlopen(f"http://127.0.0.1:{machine.port}/", timeout=60) as page:
        assert b"<html" in page.read().lower()
    # Other users may read its statistics.
    script = ("sh", "-c", board_script.read(snapshot.BOARD_SIDE), "edgepipe")
    nobody = ("setpriv", "--reuid", "65534", "--clear-groups")
    said = machine.must(*nobody, *script, "snapshots", "/", "/dev/shm")
    found = snapshot.parse(said.partition("edgepipe-begin\n")[2])
    assert int(pid) in [pipeline.pid for pipeline in found.snapshots]
    machine.must("systemctl", "stop", "edgepipe")
    assert machine.property("edgepipe", "Result") == "success"
    # The deploy user still records the highest version.
    assert machine.must("stat", "-c", "%U", *HIGHEST) == "nobody\nnobody\n"


def test_a_bundle_without_the_signature_that_the_policy_demands_is_refused(machine):
    kept = machine.root / "current/bundle/manifest.sig"
    kept.rename(machine.root / "manifest.sig")
    done = machine.run("systemctl", "start", "edgepipe")
    (machine.root / "manifest.sig").rename(kept)
    assert done.returncode == 1
    assert machine.property("edgepipe", "ExecMainStatus") == "15"
    assert machine.property("edgepipe", "NRestarts") == "0"
    assert "is not signed" in machine.log()


def test_a_paused_unit_starts_when_the_lock_is_released(machine):
    with (machine.root / "paused").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        machine.must("systemctl", "start", "--no-block", "edgepipe")
        eventually(
            lambda: machine.property("edgepipe", "SubState") == "start-pre", "it does not wait"
        )
    eventually(lambda: machine.property("edgepipe", "SubState") == "running", "it does not start")
    machine.must("systemctl", "stop", "edgepipe")


def test_what_the_unit_may_not_do(machine):
    script = machine.folder / "probes"
    lines = [f"( {probe} ) 2>&1 | tail -n 1\necho ----" for probe in PROBES]
    script.write_text("\n".join(["#!/bin/sh", *lines, "exit 0"]))
    script.chmod(0o755)
    kept = [
        line
        for line in machine.text.splitlines()
        if not line.startswith(("ExecStart", "Type=", "Restart=", "WatchdogSec=", "Condition"))
    ]
    kept.insert(
        kept.index("[Service]") + 1,
        f"Type=oneshot\nExecStart=/bin/sh /run/probes\nEnvironment=ROOT={machine.root}"
        f" PYTHON=/usr/bin/python3\nBindReadOnlyPaths={script}:/run/probes",
    )
    (machine.units / "probes.service").write_text("\n".join(kept))
    machine.must("systemctl", "daemon-reload")
    before = len(machine.log())
    machine.must("systemctl", "start", "probes")
    said = (machine.folder / "log").read_text()[before:].split("----\n")
    for probe, found in zip(PROBES, said, strict=False):
        assert PROBES[probe] in found, probe
