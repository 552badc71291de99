"""Several boards at once: their hosts, and the outcome on each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from edgepipe import schema
from edgepipe.deploy.connection import Target
from edgepipe.deploy.deployment import Outcome
from edgepipe.errors import DeployError, EdgepipeError

DEFAULT_ROOT = "edgepipe"
_MOST_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A fleet file: ``hosts`` as ssh knows them, and optionally the deploy folder on each."""

    hosts: tuple[str, ...]
    root: str = DEFAULT_ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOutcome:
    """The result for one host: ``outcome``, or the error that ended the deploy."""

    host: str
    outcome: Outcome | None
    error: EdgepipeError | None
    seconds: float


def load(path: Path) -> Fleet:
    """Load a fleet file; raise ``DeployError`` for an unknown key or a wrong type."""
    table = schema.read_toml(path, DeployError)
    return schema.from_table(Fleet, table, path.name, DeployError)


def make_targets(
    hosts: Sequence[str], fleet: Fleet | None, root: str | None, ssh_config: Path | None
) -> tuple[Target, ...]:
    """Return a target for every host, those in ``hosts`` first.

    Raises ``DeployError`` if there is no host or a host appears twice.
    """
    all_hosts = [*hosts, *(fleet.hosts if fleet else ())]
    if not all_hosts:
        raise DeployError("no host to deploy to", hint="name a board", option="host", value="HOST")
    for host in all_hosts:
        if all_hosts.count(host) > 1:
            raise DeployError(f"host {host!r} is given twice", hint="name each host once")
    root = root or (fleet.root if fleet else DEFAULT_ROOT)
    return tuple(Target(host=host, root=root, ssh_config=ssh_config) for host in all_hosts)


def for_each(
    targets: Sequence[Target], work: Callable[[Target], Outcome]
) -> tuple[HostOutcome, ...]:
    """Do ``work`` for all targets in parallel; return the outcomes in the order of the targets.

    One host's error does not affect the others.
    """

    def timed(target: Target) -> HostOutcome:
        began = time.monotonic()
        outcome, error = None, None
        try:
            outcome = work(target)
        except EdgepipeError as caught:
            error = caught
        seconds = time.monotonic() - began
        return HostOutcome(host=target.host, outcome=outcome, error=error, seconds=seconds)

    with ThreadPoolExecutor(min(len(targets), _MOST_AT_ONCE), "deploy") as pool:
        return tuple(pool.map(timed, targets))
