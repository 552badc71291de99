"""Deploy to one board: the steps in order, each of which leaves one whole release current.

    connect -> pre-flight check -> lock -> inventory -> plan -> upload, compared by digest
            -> golden run -> switch -> the user's command -> prune

Up to the switch nothing that runs on the board is touched. The switch is one rename. When the
user's command fails after it, the release before is made current again.
"""

from __future__ import annotations

import contextlib
import datetime
import secrets
from dataclasses import dataclass
from pathlib import Path

from edgepipe.bitstream import fingerprint, record
from edgepipe.bundle.manifest import Manifest
from edgepipe.deploy import payload, plan
from edgepipe.deploy.connection import Connection, ConnectionLostError, GoldenError, Target
from edgepipe.deploy.payload import PayloadFile, ReleaseRecord
from edgepipe.deploy.plan import BoardFacts, Inventory, Plan
from edgepipe.errors import DeployError
from edgepipe.progress import Progress, Silent

# A slow SD card behind a slow link; only there so that nothing waits for ever.
_UPLOAD_BYTES_PER_S = 100_000
_SWITCH_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """How to deploy. ``operator`` says who deploys; ``after`` is a command that runs in the new
    release, in the board's shell, when it has become current (restart a service there).
    ``system`` goes before the board's /run (another folder in tests)."""

    operator: str
    keep: int = 3
    dry_run: bool = False
    golden_timeout_s: int = 120
    after: str = ""
    runtimes: tuple[Path, ...] = ()
    system: str = ""

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise DeployError(f"keep is {self.keep}, expected at least 1 release")
        if self.golden_timeout_s < 1:
            raise DeployError(f"golden timeout is {self.golden_timeout_s} s, expected at least 1 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A bundle as read and checked, ready to be sent to any number of boards."""

    manifest: Manifest
    files: tuple[PayloadFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one board: ``release`` is the one that is current afterwards."""

    result: str
    release: int | None
    sent_files: int = 0
    sent_bytes: int = 0
    lines: tuple[str, ...] = ()


def open_source(bundle: Path) -> Source:
    """Read the bundle and check its digests; raise ``BundleError`` on damage."""
    manifest, files = payload.bundle_files(bundle)
    return Source(manifest=manifest, files=files)


def deploy(
    target: Target, source: Source, options: DeployOptions, progress: Progress | None = None
) -> Outcome:
    """Make ``source`` the current release on the board, or leave the board as it is.

    Raises ``FingerprintError`` when the board's logic is known to be another than the bundle was
    built for, ``DeployError`` when the board is not fit, another deploy is under way, the upload or
    the golden run fails, or the link breaks; the message says what is current then.
    """
    progress = progress or Silent()
    progress.step("connect")
    with Connection(target) as connection:
        progress.step("pre-flight check")
        host = target.host
        facts = plan.parse_facts(connection.run("probe", options.system), host)
        plan.check_board(facts, host)
        architecture = plan.architecture(facts, host)
        plan.check_bundle(source.manifest.architectures, architecture, host)
        _check_fingerprint(source.manifest, facts, host)
        runtime = payload.find_runtime(architecture, options.runtimes)
        files = (runtime, *source.files)
        if not options.dry_run:
            connection.lock(options.operator)
        inventory = plan.parse_inventory(connection.run("inventory"))
        todo = plan.make_plan(files, inventory, options.keep)
        plan.check_space(todo, facts, host)
        if options.dry_run:
            return _describe(todo, inventory)
        if todo.unchanged is not None:
            progress.step("golden run on the board")
            try:
                _golden(connection, str(todo.unchanged), options)
            except DeployError as error:
                raise _with_state(
                    error, f"unchanged release {todo.unchanged} is current"
                ) from error
            return Outcome(result="unchanged", release=todo.unchanged)
        _stage_and_switch(connection, source, files, todo, inventory, options, progress)
    return Outcome(
        result="deployed",
        release=todo.number,
        sent_files=len(todo.uploads),
        sent_bytes=todo.upload_bytes,
    )


def rollback(
    target: Target, number: int | None, options: DeployOptions, progress: Progress | None = None
) -> Outcome:
    """Make release ``number`` current, or without one the newest before the current release.

    The golden input must pass there first. Raises ``DeployError`` when there is no such release.
    """
    progress = progress or Silent()
    progress.step("connect")
    with Connection(target) as connection:
        if not options.dry_run:
            connection.lock(options.operator)
        inventory = plan.parse_inventory(connection.run("inventory"))
        chosen = _earlier(inventory, number, target.host)
        if options.dry_run:
            return Outcome(
                result="dry run",
                release=inventory.current,
                lines=(f"would make release {chosen} current",),
            )
        try:
            progress.step("golden run on the board")
            _golden(connection, str(chosen), options)
        except DeployError as error:
            raise _with_state(error, _still(inventory)) from error
        progress.step(f"switch to release {chosen}")
        _switch(connection, ("point", str(chosen)), chosen, inventory, options)
    return Outcome(result="rolled back", release=chosen)


def releases(target: Target) -> Inventory:
    """Return the releases on the board; changes nothing there."""
    with Connection(target) as connection:
        return plan.parse_inventory(connection.run("inventory"))


def _check_fingerprint(manifest: Manifest, facts: BoardFacts, host: str) -> None:
    """Raise ``FingerprintError`` when the board's logic, if it is known, is another than needed."""
    fingerprint.check_version(manifest.fingerprint, host)
    if facts.bitstream and any(stage.kind == "vta" for stage in manifest.stages):
        programmed = record.parse(facts.bitstream, f"{host}: bitstream.json")
        fingerprint.check_programmed(manifest.fingerprint, programmed, host)


def _stage_and_switch(
    connection: Connection,
    source: Source,
    files: tuple[PayloadFile, ...],
    todo: Plan,
    inventory: Inventory,
    options: DeployOptions,
    progress: Progress,
) -> None:
    name = secrets.token_hex(4)
    release = ReleaseRecord(
        name=source.manifest.name,
        builder_version=source.manifest.fingerprint.builder_version,
        deployed_by=options.operator,
        deployed_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    folder = f".incoming-{name}"
    archive = payload.make_archive(files, todo.links, folder, payload.make_record(release))
    try:
        progress.step(f"send {len(todo.uploads)} of {len(files)} files, {len(archive) >> 10} KiB")
        timeout_s = 60 + len(archive) / _UPLOAD_BYTES_PER_S
        connection.run("receive", name, stdin=archive, timeout_s=timeout_s)
        progress.step("golden run on the board")
        _golden(connection, folder, options)
    except DeployError as error:
        # What a lost connection left is linked to by the next deploy; what is wrong is removed.
        if not isinstance(error, ConnectionLostError):
            with contextlib.suppress(DeployError):
                connection.run("discard", name)
        raise _with_state(error, _still(inventory)) from error
    progress.step(f"switch to release {todo.number}")
    _switch(connection, ("activate", name, str(todo.number)), todo.number, inventory, options)
    progress.step("remove old releases")
    try:
        connection.run("prune", str(options.keep), timeout_s=_SWITCH_S)
    except DeployError as error:
        raise _with_state(error, f"release {todo.number} is current") from error


def _golden(connection: Connection, folder: str, options: DeployOptions) -> None:
    seconds = options.golden_timeout_s
    try:
        connection.run("golden", folder, str(seconds), timeout_s=seconds + 30.0)
    except GoldenError as error:
        raise GoldenError(
            str(error),
            hint="the board does not compute what the build recorded: check its bitstream with "
            "`edgepipe bitstream check`, and try the bundle here with `edgepipe-run --golden`",
        ) from error


def _switch(
    connection: Connection,
    step: tuple[str, ...],
    number: int,
    before: Inventory,
    options: DeployOptions,
) -> None:
    """Run the step that changes ``current``, then the user's command; undo it when that fails."""
    host = connection.target.host
    try:
        connection.run(*step, timeout_s=_SWITCH_S)
    except ConnectionLostError as error:
        raise DeployError(
            f"{error}; either release {number} is current, or {_still(before)}",
            hint=f"`edgepipe deploy --list --host {host}` tells",
        ) from error
    except DeployError as error:
        raise _with_state(error, _still(before)) from error
    if not options.after:
        return
    try:
        connection.run("hook", options.after, timeout_s=_SWITCH_S)
    except ConnectionLostError as error:
        raise _with_state(error, f"release {number} is current") from error
    except DeployError as error:
        if before.current is None:
            raise _with_state(error, f"release {number} is current") from error
        connection.run("point", str(before.current), timeout_s=_SWITCH_S)
        with contextlib.suppress(DeployError):
            connection.run("hook", options.after, timeout_s=_SWITCH_S)
        raise DeployError(
            f"{error}; release {before.current} is current again",
            hint=f"try {options.after!r} on the board by hand",
        ) from error


def _earlier(inventory: Inventory, number: int | None, host: str) -> int:
    numbers = [release.number for release in inventory.releases]
    known = ", ".join(map(str, numbers)) or "none"
    if number is None:
        candidates = [n for n in numbers if inventory.current is None or n < inventory.current]
        if not candidates:
            raise DeployError(
                f"{host}: no release before {inventory.current or 'the first'} to go back to",
                hint=f"releases there: {known}",
            )
        return candidates[-1]
    if number not in numbers:
        raise DeployError(f"{host}: has no release {number}", hint=f"releases there: {known}")
    return number


def _describe(todo: Plan, inventory: Inventory) -> Outcome:
    if todo.unchanged is not None:
        lines = [f"release {todo.unchanged} holds these very files; nothing to send"]
    else:
        lines = [f"would send {path}" for path in todo.uploads]
        lines.append(f"would link {len(todo.links)} files that are on the board already")
        lines.append(f"would make release {todo.number} current after its golden run")
        lines += [f"would remove release {number}" for number in todo.pruned]
    return Outcome(
        result="dry run",
        release=inventory.current,
        sent_files=len(todo.uploads) if todo.unchanged is None else 0,
        sent_bytes=todo.upload_bytes if todo.unchanged is None else 0,
        lines=tuple(lines),
    )


def _still(inventory: Inventory) -> str:
    if inventory.current is None:
        return "no release is current there yet"
    return f"release {inventory.current} is still current"


def _with_state(error: DeployError, state: str) -> DeployError:
    return type(error)(f"{error}; {state}", hint=error.hint)
