"""Deploy to one board: the steps in order, each of which leaves one complete release current.

    connect -> pre-flight check -> lock, inventory -> plan -> upload, compared by digest
            -> the board's policy -> golden run -> switch -> restart of the unit, the user's command
            -> prune

Nothing that the board would start changes before the switch, and the switch is a single rename. If
the unit does not start or the user's command fails after it, the previous release becomes current
again. Everything from the golden run on is one step on the board, which proceeds only while this
side is connected.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from edgepipe.bitstream import fingerprint, record
from edgepipe.bundle.manifest import Manifest
from edgepipe.bundle.signature import Refusal
from edgepipe.deploy import payload, plan
from edgepipe.deploy.connection import Connection, Target
from edgepipe.deploy.payload import PayloadFile, ReleaseRecord
from edgepipe.deploy.plan import BoardFacts, Inventory, Plan
from edgepipe.deploy.session import (
    ConnectionLostError,
    GoldenError,
    StepSession,
    SwitchError,
)
from edgepipe.errors import DeployError, SignatureError
from edgepipe.progress import Progress, Silent

# For a slow SD card behind a slow link; these limits only prevent endless waiting.
_UPLOAD_BYTES_PER_S = 100_000
_SWITCH_S = 300.0
_POLICY_S = 120.0
DEFAULT_UNIT = "edgepipe"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """How to deploy.

    ``operator`` names the person who deploys. ``unit`` is the systemd unit that runs the current
    release; if the board has it, it is stopped for the golden run and restarted after the switch.
    An empty ``unit`` leaves it alone. ``after`` is a shell command that runs on the board, in the
    new release, after the switch. ``allow_simulator`` accepts a golden run whose VTA stages ran on
    the simulator, on a board without an accelerator. ``system`` is a prefix of the board's /etc and
    /run, for tests.
    """

    operator: str
    keep: int = 3
    dry_run: bool = False
    golden_timeout_s: int = 120
    unit: str = DEFAULT_UNIT
    after: str = ""
    runtimes: tuple[Path, ...] = ()
    allow_simulator: bool = False
    system: str = ""

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise DeployError(f"keep is {self.keep}, expected at least 1 release")
        if self.golden_timeout_s < 1:
            raise DeployError(f"golden timeout is {self.golden_timeout_s} s, expected at least 1 s")
        check_unit(self.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A bundle that has been read and checked, ready to be sent to any number of boards."""

    manifest: Manifest
    files: tuple[PayloadFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result for one board.

    ``release`` is the release that is current afterwards. ``unit`` says what happened to the
    systemd unit; it is empty if the board has none.
    """

    result: str
    release: int | None
    unit: str = ""
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

    Raises ``FingerprintError`` if it is known that the board is another one than that which the
    bundle was built for, or that it has a different bitstream. Raises ``DeployError`` if the board
    is unsuitable, another deploy is in progress, the upload or the golden run fails, or the
    connection breaks. Raises ``SignatureError`` if the board's policy refuses the bundle. After the
    lock has been taken, the message also says which release is current.
    """
    progress = progress or Silent()
    payload.check_runtime(source.manifest.architectures, options.runtimes)
    progress.step("connect")
    with Connection(target) as connection:
        progress.step("pre-flight check")
        host = target.host
        begun = _begin(connection, options)
        facts = plan.parse_facts(begun, host)
        plan.check_board(facts, host)
        architecture = plan.architecture(facts, host)
        plan.check_bundle(source.manifest.architectures, architecture, host)
        _check_fingerprint(source.manifest, facts, host)
        files = (*payload.find_runtime(architecture, options.runtimes), *source.files)
        inventory = plan.parse_inventory(begun if options.dry_run else connection.lock())
        todo = plan.make_plan(files, inventory, options.keep)
        plan.check_space(todo, facts, host)
        if options.dry_run:
            return _describe(todo, inventory)
        unit = options.unit if facts.unit else ""
        if todo.unchanged is not None:
            return _unchanged(connection, todo.unchanged, unit, facts, options, progress)
        release = ReleaseRecord(
            name=source.manifest.name,
            builder_version=source.manifest.fingerprint.builder_version,
            deployed_by=options.operator,
            deployed_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )
        folder = _send(connection, files, release, todo, inventory, progress)
        _accept(connection, folder, inventory, options, progress)
        _adopt(connection, folder, todo.number, unit, inventory, options, progress)
    return Outcome(
        result="deployed",
        release=todo.number,
        unit="restarted" if unit else "",
        sent_files=len(todo.uploads),
        sent_bytes=todo.upload_bytes,
    )


def rollback(
    target: Target, number: int | None, options: DeployOptions, progress: Progress | None = None
) -> Outcome:
    """Make release ``number`` current; ``None`` means the newest one before the current release.

    Its golden input must pass first. Raises ``DeployError`` if there is no such release,
    ``SignatureError`` if the board's policy refuses it, for example as too old.
    """
    progress = progress or Silent()
    progress.step("connect")
    with Connection(target) as connection:
        begun = _begin(connection, options)
        facts = plan.parse_facts(begun, target.host)
        plan.check_board(facts, target.host)
        inventory = plan.parse_inventory(begun if options.dry_run else connection.lock())
        chosen = _earlier(inventory, number, target.host)
        if options.dry_run:
            return Outcome(
                result="dry run",
                release=inventory.current,
                lines=(f"would make release {chosen} current",),
            )
        unit = options.unit if facts.unit else ""
        _accept(connection, str(chosen), inventory, options, progress)
        keep = dataclasses.replace(options, keep=max(len(inventory.releases), 1))
        _adopt(connection, str(chosen), chosen, unit, inventory, keep, progress)
    return Outcome(result="rolled back", release=chosen, unit="restarted" if unit else "")


def releases(target: Target) -> Inventory:
    """Return the releases on the board, without changing anything there."""
    with Connection(target) as connection:
        return plan.parse_inventory(connection.look("", ""))


def check_unit(unit: str) -> None:
    """Raise ``DeployError`` unless ``unit`` is empty or a valid name of a systemd unit."""
    if not re.fullmatch(r"[A-Za-z0-9:_.@-]*", unit) or unit.startswith("-"):
        raise DeployError(
            f"unit {unit!r}: expected the name of a systemd unit",
            hint="a name such as edgepipe.service",
            option="unit",
            value="NAME",
        )


def _check_fingerprint(manifest: Manifest, facts: BoardFacts, host: str) -> None:
    """Raise ``FingerprintError`` if the board or its known bitstream does not match the bundle."""
    fingerprint.check_version(manifest.fingerprint, host)
    if not any(stage.kind == "vta" for stage in manifest.stages):
        return
    fingerprint.check_machine(manifest.board, facts.compatible, host)
    if facts.bitstream:
        programmed = record.parse(facts.bitstream, f"{host}: bitstream.json")
        fingerprint.check_programmed(manifest.fingerprint, programmed, host)


def _begin(connection: Connection, options: DeployOptions) -> str:
    if options.dry_run:
        return connection.look(options.system, options.unit)
    return connection.begin(options.system, options.unit, options.operator)


def _unchanged(
    connection: Connection,
    number: int,
    unit: str,
    facts: BoardFacts,
    options: DeployOptions,
    progress: Progress,
) -> Outcome:
    """Leave a running release alone; check and start one that is not running."""
    if facts.unit == "active" and unit:
        return Outcome(result="unchanged", release=number, unit="active")
    try:
        session = connection.start("verify", str(number), str(options.golden_timeout_s))
        _golden(session, connection.target.host, options, progress)
        session.finish(b"y")
        if unit:
            progress.step(f"start {unit}")
            connection.run("launch", unit)
    except DeployError as error:
        raise _with_state(error, f"unchanged release {number} is current") from error
    return Outcome(result="unchanged", release=number, unit="started" if unit else "")


def _send(
    connection: Connection,
    files: tuple[PayloadFile, ...],
    release: ReleaseRecord,
    todo: Plan,
    inventory: Inventory,
    progress: Progress,
) -> str:
    """Create the release in a folder next to the others; return the folder's name."""
    folder = f".incoming-{secrets.token_hex(4)}"
    archive = payload.make_archive(files, todo.links, folder, payload.make_record(release))
    progress.step(f"send {len(todo.uploads)} of {len(files)} files, {len(archive) >> 10} KiB")
    try:
        timeout_s = 60 + len(archive) / _UPLOAD_BYTES_PER_S
        connection.run("receive", folder, stdin=archive, timeout_s=timeout_s)
    except DeployError as error:
        _discard(connection, folder, error)
        raise _with_state(error, _still(inventory)) from error
    return folder


def _accept(
    connection: Connection,
    folder: str,
    before: Inventory,
    options: DeployOptions,
    progress: Progress,
) -> None:
    """Raise ``SignatureError`` if the board's policy refuses the bundle in ``folder``."""
    progress.step("ask the board's policy")
    host = connection.target.host
    try:
        said = connection.run("accept", folder, options.system, timeout_s=_POLICY_S)
        verdict = re.match(r"refused (\d+)\n", said)
        if verdict is None:
            return
        found = dict(re.findall(r"^(?:edgepipe-run: )?(error|hint): (.*)$", said, re.MULTILINE))
        code = int(verdict[1])
        text = found.get("error", f"exit code {code}").removeprefix("bundle: ")
        if code not in list(Refusal):
            raise DeployError(
                f"{host}: the board cannot apply its policy: {text}",
                hint=found.get("hint") or "deploy with the programs of this version of edgepipe",
            )
    except DeployError as error:
        _discard(connection, folder, error)
        raise _with_state(error, _still(before)) from error
    refused = SignatureError(
        f"{host}: {text}; {_still(before)}", hint=found.get("hint", ""), exit_code=code
    )
    _discard(connection, folder, DeployError(text))
    raise refused


def _adopt(
    connection: Connection,
    folder: str,
    number: int,
    unit: str,
    before: Inventory,
    options: DeployOptions,
    progress: Progress,
) -> None:
    """Run the golden input in ``folder`` and make it the current release ``number``."""
    host = connection.target.host
    arguments = (folder, number, options.keep, options.golden_timeout_s, unit, options.after)
    session = connection.start("adopt", *map(str, arguments))
    try:
        _golden(session, host, options, progress)
    except DeployError as error:
        _discard(connection, folder, error)
        raise _with_state(error, _still(before)) from error
    progress.step(f"switch to release {number}")
    session.send(b"y")
    try:
        session.read_until("switched", timeout_s=_SWITCH_S)
    except ConnectionLostError as error:
        raise DeployError(
            f"{error}; either release {number} is current, or {_still(before)}",
            hint="list the releases on the board to see which",
            option="releases",
            value=host,
        ) from error
    except SwitchError as error:
        state = f"{before.current} is current again" if before.current else f"{number} is current"
        raise DeployError(
            f"{error}; release {state}",
            hint=f"the journal of {unit} says why"
            if unit
            else f"try {options.after!r} on the board by hand",
            option="journal" if unit else "",
            value=host if unit else "",
        ) from error
    except DeployError as error:
        raise _with_state(error, _still(before)) from error
    progress.step("remove old releases")
    try:
        session.finish(timeout_s=_SWITCH_S)
        connection.run("settle", options.system, timeout_s=_POLICY_S)
    except DeployError as error:
        raise _with_state(error, f"release {number} is current") from error


def _golden(session: StepSession, host: str, options: DeployOptions, progress: Progress) -> None:
    """Wait for a step's golden run; if it fails, end the step and raise ``GoldenError``."""
    progress.step("golden run on the board")
    said = session.read_until("golden", timeout_s=options.golden_timeout_s + 60.0)
    verdict = said.splitlines()[-1].removeprefix("golden ").strip(" ;")
    outcome, _, device = verdict.partition(" on ")
    simulated = device == "simulator"
    if outcome == "equal" and (options.allow_simulator or not simulated):
        if simulated:
            progress.notice(f"{host}: there is no accelerator; the golden run was on the simulator")
        return
    session.send(b"n")
    with contextlib.suppress(DeployError):
        session.finish()
    if outcome == "equal":
        raise GoldenError(
            f"{host}: golden run failed: VTA stages ran on the simulator, expected the accelerator",
            hint="`edgepipe doctor` says what is missing; to run them on the board's cores all the "
            "same, allow the simulator",
            option="allow_simulator",
        )
    hint = (
        "stop the process that uses the accelerator, or let edgepipe's systemd unit run it"
        if "another process uses it" in verdict
        else "the board does not compute the recorded outputs: check its bitstream with "
        "`edgepipe bitstream check`, and run the bundle on this machine with `edgepipe run`"
    )
    raise GoldenError(f"{host}: golden run failed: {verdict}", hint=hint)


def _discard(connection: Connection, folder: str, error: DeployError) -> None:
    """Remove a failed release. After a lost connection, keep it: the next deploy links to it."""
    if folder.startswith(".") and not isinstance(error, ConnectionLostError):
        with contextlib.suppress(DeployError):
            connection.run("discard", folder)


def _earlier(inventory: Inventory, number: int | None, host: str) -> int:
    numbers = [release.number for release in inventory.releases]
    known = ", ".join(map(str, numbers)) or "none"
    if number is None:
        candidates = [n for n in numbers if inventory.current is None or n < inventory.current]
        if not candidates:
            raise DeployError(
                f"{host}: no release before {inventory.current or 'the first'} to return to",
                hint=f"releases there: {known}",
            )
        return candidates[-1]
    if number not in numbers:
        raise DeployError(f"{host}: no release {number}", hint=f"releases there: {known}")
    return number


def _describe(todo: Plan, inventory: Inventory) -> Outcome:
    if todo.unchanged is not None:
        lines = [f"release {todo.unchanged} already contains these files; nothing to send"]
    else:
        lines = [f"would send {path}" for path in todo.uploads]
        lines.append(f"would link {len(todo.links)} files that the board already has")
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
        return "no release is current yet"
    return f"release {inventory.current} is still current"


def _with_state(error: DeployError, state: str) -> DeployError:
    return type(error)(f"{error}; {state}", hint=error.hint, option=error.option, value=error.value)
