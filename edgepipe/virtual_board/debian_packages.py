"""Download Debian packages of another architecture without touching this machine's package state.

apt runs with a separate configuration: its lists, cache and status are in the given folder, and
nothing is installed. The repositories are the Debian ones that this machine uses.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import host_tools

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageStore:
    """A folder of downloaded packages and apt's state for them, for one Debian architecture.

    ``updates`` includes Debian's security updates; without them, the packages are those of the
    release.
    """

    folder: Path
    log: Path
    architecture: str = "arm64"
    updates: bool = True

    def update(self) -> None:
        """Write apt's configuration and fetch the package lists; raise ``VirtualBoardError``."""
        if not KEYRING.is_file():
            raise VirtualBoardError(
                f"virtual board: Debian's archive keys are missing ({KEYRING})",
                hint="apt-get install -y debian-archive-keyring",
            )
        for name in ("state/lists/partial", "cache/archives/partial", "debs", "partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        (self.folder / "sources.list").write_text("".join(self._repositories()))
        self._configuration.write_text(
            f'APT::Architecture "{self.architecture}";\n'
            f'APT::Architectures {{ "{self.architecture}"; "{host_architecture()}"; }};\n'
            'APT::Install-Recommends "false";\n'
            'APT::Sandbox::User "root";\n'
            'Acquire::Languages "none";\n'
            f'Dir::State "{self.folder}/state";\n'
            f'Dir::State::status "{self.folder}/status";\n'
            f'Dir::Cache "{self.folder}/cache";\n'
            f'Dir::Etc::SourceList "{self.folder}/sources.list";\n'
            'Dir::Etc::SourceParts "/dev/null";\n'
            'Dir::Etc::Preferences "/dev/null";\n'
            'Dir::Etc::PreferencesParts "/dev/null";\n'
        )
        self._apt("fetch the package lists", "apt-get", "update")

    def depends(self, package: str) -> list[str]:
        """Return the names of the packages that ``package`` depends on, in its own order."""
        output = self._query("apt-cache", "depends", "--no-recommends", "--no-suggests", package)
        return re.findall(r"^\s+Depends: (\S+)", output, re.MULTILINE)

    def download(self, packages: list[str]) -> dict[str, Path]:
        """Return the files of the packages (``name`` or ``name:architecture``).

        Raises ``VirtualBoardError`` for an unknown package or a failed download.
        """
        missing = [package for package in packages if self._file(package) is None]
        if missing:
            partial = self.folder / "partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            self._apt("download packages", "apt-get", "download", "-qq", *missing, folder=partial)
            for file in partial.iterdir():
                file.replace(self.folder / "debs" / file.name)
        files: dict[str, Path] = {}
        for package in packages:
            file_found = self._file(package)
            if file_found is None:
                raise VirtualBoardError(f"virtual board: apt-get downloaded no file for {package}")
            files[package] = file_found
        return files

    def _repositories(self) -> list[str]:
        lines = _host_repositories(self.log)
        return [line for line in lines if self.updates or "-security" not in line.split()[3]]

    @property
    def _configuration(self) -> Path:
        return self.folder / "apt.conf"

    def _file(self, package: str) -> Path | None:
        name, _, architecture = package.partition(":")
        found = (self.folder / "debs").glob(f"{name}_*_{architecture or '*'}.deb")
        return max(found, default=None, key=lambda file: file.stat().st_mtime)

    def _apt(self, what: str, *command: str, folder: Path | None = None) -> None:
        host_tools.run(what, command, log=self.log, folder=folder, environment=self._environment())

    def _query(self, *command: str) -> str:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=self._environment()
        ).stdout

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "APT_CONFIG": str(self._configuration), "LC_ALL": "C"}


def host_architecture() -> str:
    """Return Debian's name for this machine's architecture, such as ``amd64``."""
    output = subprocess.run(
        [host_tools.find("dpkg-deb").removesuffix("-deb"), "--print-architecture"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return output or "amd64"


def _host_repositories(log: Path) -> list[str]:
    """Return source lines for the Debian repositories that this machine uses."""
    targets = subprocess.run(
        [
            host_tools.find("apt-get"),
            "indextargets",
            "--format",
            "$(ORIGIN)|$(COMPONENT)|$(REPO_URI)|$(RELEASE)",
            "Created-By: Packages",
        ],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    lines: dict[str, None] = {}  # ordered, without duplicates
    for target in targets.splitlines():
        origin, component, uri, release = target.split("|")
        if origin == "Debian" and component == "main":
            lines[f"deb [signed-by={KEYRING}] {uri} {release} main\n"] = None
    if not lines:
        with log.open("a") as output:
            output.write(f"apt-get indextargets:\n{targets}\n")
        raise VirtualBoardError(
            "virtual board: apt on this machine has no Debian repository",
            hint="the virtual board is built from Debian packages: add a Debian mirror to apt's "
            "sources and run apt-get update",
        )
    return list(lines)
