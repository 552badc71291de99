"""What has been measured so far, in a file beside the output, so that an interrupt loses little."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgepipe import __version__, scratch
from edgepipe.board_costs.probe_bundle import ProbeFiles
from edgepipe.errors import BoardError

FORMAT = 1


def record_path(output: Path) -> Path:
    """Return the file that holds what has been measured for ``output`` so far."""
    return output.with_name(f"{output.name}.measured")


def identity(host: str, device: str, machine: str, programs: ProbeFiles) -> str:
    """Return a digest of what must be equal for earlier times to be of use.

    ``machine`` is the kind of processor, for which the cores' kernels are compiled; ``programs``
    are the accelerator's.
    """
    content = hashlib.sha256(f"{__version__}\n{host}\n{device}\n{machine}\n".encode())
    for path, data in sorted(programs.items()):
        content.update(f"{path}\n".encode() + hashlib.sha256(data).digest())
    return content.hexdigest()


@dataclass(slots=True)
class Record:
    """The least time of every probe so far, in microseconds. Each change is written at once."""

    path: Path
    identity: str
    times_us: dict[str, float] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, identity: str) -> Record:
        """Return what ``path`` holds, or an empty record if it has another identity or is damaged.

        Raises BoardError if the file exists and cannot be read.
        """
        try:
            found: Any = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls(path, identity)
        except OSError as cause:
            raise _unusable(path, "read", cause) from cause
        except (ValueError, RecursionError):
            return cls(path, identity)
        times = found.get("times_us") if isinstance(found, dict) else None
        if not isinstance(times, dict) or found.get("identity") != identity:
            return cls(path, identity)
        usable = {n: float(us) for n, us in times.items() if isinstance(us, int | float) and us > 0}
        return cls(path, identity, usable)

    def add(self, name: str, time_us: float) -> None:
        """Add the time of a probe. Raises BoardError if the file cannot be written."""
        self.times_us[name] = time_us
        content = {"format": FORMAT, "identity": self.identity, "times_us": self.times_us}
        waiting = scratch.name_beside(self.path, ".edgepipe.")
        try:
            with scratch.removed_if_killed(waiting):
                waiting.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
                waiting.replace(self.path)
        except OSError as cause:
            raise _unusable(self.path, "written", cause) from cause
        finally:
            waiting.unlink(missing_ok=True)


def _unusable(path: Path, what: str, cause: OSError) -> BoardError:
    return BoardError(
        f"{path}: cannot be {what} ({cause.strerror})",
        hint="fix the permissions, or choose an output in another folder",
        option="output",
        value="FILE",
    )
