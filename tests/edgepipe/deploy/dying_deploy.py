"""A deploy in its own process that gets a signal at a step; for test_deployer_killed.py."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from edgepipe.deploy import deployment
from edgepipe.deploy.connection import Target
from edgepipe.progress import Silent

# Imports everything once; every deploy is a fork of it.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["dying_deploy"])


class AtStep(Silent):
    """Calls ``act`` when a deploy begins a step; at the golden run, once the unit is paused."""

    def __init__(self, step, root, act):
        self._step, self._root, self._act = step, root, act

    def step(self, text):
        if text.startswith(self._step):
            if self._step == "golden run":
                while is_unlocked(self._root / "paused"):
                    time.sleep(0.02)
            self._act()


def is_unlocked(path: Path) -> bool:
    """Return whether no process holds an flock lock on a file, or the file does not exist."""
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def deploy(config: Path, bundle: Path, options: deployment.DeployOptions, progress: Silent) -> None:
    """Deploy to the board of an SSH configuration."""
    target = Target(host="board", root="edgepipe", ssh_config=config)
    deployment.deploy(target, deployment.open_source(bundle), options, progress)


def start(config, bundle, options, step, sent, root) -> BaseProcess:
    """Start a deploy whose process sends itself the signal ``sent`` at ``step``."""
    process = _FORKS.Process(target=_die, args=(config, bundle, options, step, sent, root))
    process.start()
    return process


def _die(config, bundle, options, step, sent, root):
    try:
        deploy(config, bundle, options, AtStep(step, root, lambda: os.kill(os.getpid(), sent)))
    except KeyboardInterrupt:
        sys.exit(130)
