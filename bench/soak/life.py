"""One life of the program: started, watched, stopped, and every frame accounted for."""

from __future__ import annotations

import json
import re
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.soak.ground import Ground
from bench.soak.readers import Readers
from bench.soak.stalled_readers import StalledReaders
from edgepipe.errors import EdgepipeError

READERS, STALLED = 6, 4
STOP_S = 60.0
MOST_GROWTH_KIB = 4096  # of one life
MOST_MEAN_GROWTH_KIB = 512  # of all lives of a long run, where what differs by chance evens out
MOST_STALL_S = 20  # 5 s without progress, and what a busy machine adds
MOST_MORE = 2  # descriptors or threads, because readers connect and leave

_FRAMES = re.compile(r"(\d+) submitted = (\d+) delivered \+ (\d+) dropped \+ (\d+) failed")
_SOURCE = re.compile(
    r"source: (\d+) captured, (\d+) taken \((\d+) of them damaged\), (\d+) dropped, "
    r"(\d+) missed, (\d+) silences, (\d+) reconnects"
)
_RETRIED = re.compile(r"(\d+) frames run again, (\d+) on its fallback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The process at one time: resident memory in KiB, open descriptors, threads."""

    resident_kib: int
    descriptors: int
    threads: int

    @staticmethod
    def script(number: int) -> str:
        """Return the shell script whose output ``parse`` reads, for a process number."""
        status = f"grep -e VmRSS -e Threads /proc/{number}/status; ls /proc/{number}/fd | wc -l"
        return f"{status}; cat /dev/shm/edgepipe-{number}-0.json"

    @staticmethod
    def parse(text: str) -> Sample | None:
        """Return the sample, or None while the camera is away, whose descriptors are closed.

        Raises ``ValueError`` for the output of a process that is ending.
        """
        resident, threads, descriptors, published = text.splitlines()
        if json.loads(published)["live"]["source"]["outage_s"] > 0:
            return None
        return Sample(
            resident_kib=int(resident.split()[1]),
            threads=int(threads.split()[1]),
            descriptors=int(descriptors),
        )


@dataclass(slots=True, kw_only=True)
class Total:
    """Sums over all lives, the growth of the worst one, and what went wrong."""

    lives: int = 0
    delivered: int = 0
    dropped: int = 0
    failed: int = 0
    unaccounted: int = 0
    captured: int = 0
    reconnects: int = 0
    run_again: int = 0
    injected_hangs: int = 0
    unnoticed_hangs: int = 0
    on_fallback: int = 0
    events: int = 0
    pictures: int = 0
    refused: int = 0
    stalls: int = 0
    longest_stall_s: int = 0
    unplugged: int = 0
    deploys: int = 0
    rollbacks: int = 0
    growths_kib: list[int] = field(default_factory=list)  # of each life with enough samples
    more_descriptors: int = 0
    more_threads: int = 0
    samples: int = 0
    violations: list[str] = field(default_factory=list)


class Life:
    """The program from its start to its end; ``end`` adds its account to ``total``."""

    def __init__(self, ground: Ground, total: Total, errors: Path) -> None:
        self._ground, self._total, self._errors = ground, total, errors
        program = ground.start(errors)
        self._process, self._number = program.process, program.number
        self._readers = Readers(program.port, count=READERS)
        stalls = errors.with_name("stalls.txt")
        self._stalled = StalledReaders(ground, program, count=STALLED, output=stalls)
        self._samples: list[Sample] = []

    def sample(self) -> None:
        """Take a sample of the process."""
        try:
            sample = Sample.parse(self._ground.shell(Sample.script(self._number)))
        except (subprocess.SubprocessError, EdgepipeError, ValueError):
            return  # the process is ending, which `alive` tells soon
        if sample is not None:
            self._samples.append(sample)

    @property
    def alive(self) -> bool:
        """Whether the program is running."""
        return self._process.poll() is None

    def end(self) -> None:
        """Stop the program like Ctrl-C and account for its frames."""
        total = self._total
        stalls_s = self._stalled.close()
        self._readers.close()
        total.lives += 1
        total.events += self._readers.events
        total.pictures += self._readers.pictures
        total.refused += self._readers.refused
        total.violations += self._readers.violations
        total.stalls += len(stalls_s)
        total.longest_stall_s = max(total.longest_stall_s, *stalls_s, 0)
        if self.alive:
            self._ground.shell(f"kill -{signal.SIGINT.name[3:]} {self._number}")
        try:
            code = self._process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            total.violations.append(f"the program did not stop within {STOP_S:.0f} s")
            self._ground.shell(f"kill -KILL {self._number}")
            self._process.wait()
            return
        if code != 0:
            total.violations.append(
                f"the program ended with exit code {code}: {self._said()[-500:]}"
            )
        self._account()
        self._growth()

    def _account(self) -> None:
        said, total = self._said(), self._total
        frames, source = _FRAMES.search(said), _SOURCE.search(said)
        if frames is None or source is None:
            total.violations.append(f"the program gave no account: {said[-500:]}")
            return
        submitted, delivered, dropped, failed = map(int, frames.groups())
        captured, taken, damaged, replaced, _, _, reconnects = map(int, source.groups())
        lines = self._ground.shell(f"cat {self._ground.lines}", 300.0).splitlines()
        numbers = [int(json.loads(line)["frame"]) for line in lines]
        total.unaccounted += abs(submitted - delivered - dropped - failed)
        total.unaccounted += abs(delivered - damaged - len(numbers))
        total.unaccounted += abs(captured - taken - replaced) + abs(taken - submitted)
        if numbers != sorted(set(numbers)):
            total.violations.append("results are out of order or come twice")
        total.delivered += delivered
        total.dropped += dropped
        total.failed += failed
        total.captured += captured
        total.reconnects += reconnects
        retried = [(int(again), int(fallback)) for again, fallback in _RETRIED.findall(said)]
        run_again, on_fallback = (sum(one) for one in zip((0, 0), *retried, strict=True))
        total.run_again += run_again
        total.on_fallback += on_fallback
        injected = self._ground.injected_hangs(delivered, run_again)
        total.injected_hangs += injected
        total.unnoticed_hangs += max(0, injected - run_again - on_fallback)

    def _growth(self) -> None:
        """Compare the second quarter of the samples with the last: the first one warms up."""
        count, total = len(self._samples), self._total
        total.samples += count
        if count < 8:
            return
        early, late = self._samples[count // 4 : count // 2], self._samples[-count // 4 :]

        def more(name: str) -> int:
            before, after = ([getattr(one, name) for one in part] for part in (early, late))
            return int(statistics.median(after) - statistics.median(before))

        total.growths_kib.append(more("resident_kib"))
        total.more_descriptors = max(total.more_descriptors, more("descriptors"))
        total.more_threads = max(total.more_threads, more("threads"))

    def _said(self) -> str:
        return self._errors.read_text(errors="replace")


def wait(seconds: float, life: Life) -> None:
    """Wait, with a sample every second or two; return early if the program has ended."""
    end = time.monotonic() + seconds
    while life.alive and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 1.5))
        life.sample()
