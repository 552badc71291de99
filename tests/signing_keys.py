"""OpenSSH keys, allowed signers and agents for tests."""

import contextlib
import subprocess
from pathlib import Path


def make_key(path, passphrase=""):
    """Make the key pair PATH and PATH.pub; return PATH."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", path], check=True
    )
    return path


def allow(folder, principals, key, options='namespaces="edgepipe-bundle"'):
    """Write a file of allowed signers with the public part of ``key``; return its path."""
    path = folder / "allowed_signers"
    path.write_text(f"{principals} {options} {Path(f'{key}.pub').read_text()}")
    return path


@contextlib.contextmanager
def start_agent(folder, key):
    """Run an agent that holds ``key``; yield its socket."""
    socket = str(folder / "agent")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    try:
        for _ in range(1000):
            added = subprocess.run(
                ["ssh-add", "-q", key], env={"SSH_AUTH_SOCK": socket}, capture_output=True
            )
            if added.returncode == 0:
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                agent.wait(0.05)
        assert added.returncode == 0, added.stderr
        yield socket
    finally:
        agent.terminate()
        agent.wait()
