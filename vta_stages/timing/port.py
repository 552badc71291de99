"""The port to DRAM that fetch, load, compute and store share.

A user starts a transfer: rows of bytes, each of which comes after a latency. The port moves it in
bursts. Call :meth:`Port.serve` for one burst after the other:

    port = port_of(CostModel())
    port.start(Module.LOAD, 100, Transfer(rows=1, row_bytes=64, row_cycles=80))
    port.serve()  # Burst(user=Module.LOAD, begin=180, end=185, ...)
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

from vta_stages.timing.cost_model import CostModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Rows of bytes: ``row_cycles`` pass from the request of a row to its first bytes."""

    rows: int
    row_bytes: int
    row_cycles: int
    weights: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A burst, whose bytes move from cycle ``begin`` to cycle ``end``.

    ``port_cycles`` is how long other users delayed it. ``last`` says that its transfer has ended.
    """

    user: int
    begin: int
    end: int
    count_bytes: int
    port_cycles: int
    last: bool


@dataclass(slots=True, eq=False)
class _Progress:
    """What is left of a transfer, and when its last burst ended, at first when it started."""

    transfer: Transfer
    rows_left: int
    bytes_left: int
    ended: int

    def take(self, most_bytes: int) -> tuple[int, bool, bool]:
        """Take the next burst; return its bytes, and whether its row and the transfer end."""
        count_bytes = min(self.bytes_left, most_bytes)
        self.bytes_left -= count_bytes
        row_ends = not self.bytes_left
        last = row_ends and not self.rows_left
        if row_ends and not last:
            self.rows_left -= 1
            self.bytes_left = self.transfer.row_bytes
        return count_bytes, row_ends, last


class Port(ABC):
    """Moves the bursts of all users, each of which has at most one transfer at a time."""

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost
        self._transfers: dict[int, _Progress] = {}

    def start(self, user: int, at: int, transfer: Transfer) -> None:
        """Start a transfer at cycle ``at``, which is not before the burst that was served last."""
        self._transfers[user] = _Progress(transfer, transfer.rows - 1, transfer.row_bytes, at)
        self._request(user, at)

    @abstractmethod
    def serve(self) -> Burst | None:
        """Move the burst that is next; None if no transfer is left."""

    @abstractmethod
    def _request(self, user: int, at: int) -> None:
        """Request the first burst of ``user``'s transfer, which starts at cycle ``at``."""


class SerialPort(Port):
    """A port that moves one burst at a time, in the order in which their bytes are there.

    The next row of a transfer is requested when the one before it has ended.
    """

    def __init__(self, cost: CostModel) -> None:
        super().__init__(cost)
        self._free = 0
        # (the time from which the bytes of a burst are there, user)
        self._ready: list[tuple[int, int]] = []

    def serve(self) -> Burst | None:
        """Move the burst whose bytes are there first; None if no transfer is left."""
        if not self._ready:
            return None
        ready, user = heapq.heappop(self._ready)
        progress = self._transfers[user]
        transfer = progress.transfer
        count_bytes, row_ends, last = progress.take(self._cost.burst_bytes)
        begin = max(ready, self._free)
        cycles = self._cost.port_cycles(count_bytes, weights=transfer.weights)
        self._free = end = begin + cycles
        if not last:
            latency = transfer.row_cycles if row_ends else 0
            heapq.heappush(self._ready, (end + latency, user))
        return Burst(
            user=user,
            begin=begin,
            end=end,
            count_bytes=count_bytes,
            port_cycles=begin - ready,
            last=last,
        )

    def next_ready(self) -> int | None:
        """Return when the bytes of the next burst are there, None if no transfer is left."""
        return self._ready[0][0] if self._ready else None

    def _request(self, user: int, at: int) -> None:
        latency = self._transfers[user].transfer.row_cycles
        heapq.heappush(self._ready, (at + latency, user))


class PipelinedPort(Port):
    """A port that takes ``reads_in_flight`` read requests before the bytes of the first are there.

    Each burst of a read is a request. The port takes one a cycle, of several the one of the lowest
    user, and the bytes come in the order of the requests. Transfers make their requests without
    waiting for bytes, so the latencies of rows and of users overlap. Writes have a channel of their
    own, as in AXI; only one module writes.
    """

    def __init__(self, cost: CostModel) -> None:
        super().__init__(cost)
        self._writes = SerialPort(cost)
        self._asked: dict[int, int] = {}
        self._taken = -1
        # The ends of the last reads with their users, as many as can be in flight.
        self._reads: deque[tuple[int, int]] = deque(maxlen=cost.reads_in_flight)

    def start(self, user: int, at: int, transfer: Transfer) -> None:
        """Start a transfer at cycle ``at``, which is not before the burst that was served last."""
        if transfer.writes:
            self._writes.start(user, at, transfer)
        else:
            super().start(user, at, transfer)

    def serve(self) -> Burst | None:
        """Move the burst that is requested or written first; None if no transfer is left."""
        written = self._writes.next_ready()
        if not self._asked:
            return self._writes.serve()
        taken = max(min(self._asked.values()), self._taken + 1)
        if self._full:
            taken = max(taken, self._reads[0][0])
        if written is not None and written <= taken:
            return self._writes.serve()
        return self._read(min(user for user, at in self._asked.items() if at <= taken), taken)

    @property
    def _full(self) -> bool:
        return len(self._reads) == self._reads.maxlen

    def _request(self, user: int, at: int) -> None:
        self._asked[user] = at

    def _read(self, user: int, taken: int) -> Burst:
        """Move the burst of a read whose request is taken at that cycle."""
        progress = self._transfers[user]
        transfer = progress.transfer
        before = transfer.row_bytes - progress.bytes_left
        count_bytes, _, last = progress.take(self._cost.burst_bytes)
        # A request that waits for an answer to the same user is not delayed by others.
        own = self._full and self._reads[0][1] == user
        alone = (taken if own else self._asked[user]) + transfer.row_cycles
        begin = taken + transfer.row_cycles
        if self._reads:
            begin = max(begin, self._reads[-1][0])
        delayed = max(begin - max(alone, progress.ended), 0)
        # The cycles of a row are rounded up once, not those of each request.
        end = begin + self._row_cycles(transfer, before + count_bytes)
        end -= self._row_cycles(transfer, before)
        progress.ended = end
        self._reads.append((end, user))
        self._taken = taken
        if last:
            del self._asked[user]
        else:
            self._asked[user] = taken + 1
        return Burst(
            user=user,
            begin=begin,
            end=end,
            count_bytes=count_bytes,
            port_cycles=delayed,
            last=last,
        )

    def _row_cycles(self, transfer: Transfer, count_bytes: int) -> int:
        return self._cost.port_cycles(count_bytes, weights=transfer.weights)


_PORTS = 4


class Masters(Port):
    """Ports of edgepipe's own hardware: each user has one, and memory serves them in turn.

    A transfer makes a request a cycle for each of its bursts, without waiting for bytes, up to
    ``reads_in_flight`` of them. Each port has every fourth turn to move a beat. A turn whose port
    has no bytes is the next port's, so load also takes those of store and fetch: beside it, compute
    has a quarter of the memory. Bursts end in the order in which beats would complete them.
    """

    def __init__(self, cost: CostModel) -> None:
        super().__init__(cost)
        self._free = 0.0  # not rounded: bursts follow each other without a gap
        self._asked: dict[int, int] = {}
        self._ends: dict[int, deque[int]] = {}
        # In turns: when the burst began for which a user waits, when its last one ended, and when
        # the last one of all began.
        self._begun: dict[int, float] = {}
        self._ended: dict[int, float] = {}
        self._turn = 0.0

    def serve(self) -> Burst | None:
        """Move the next burst; None if no transfer is left."""
        if not self._asked:
            return None
        taken = {user: self._taken(user) for user in self._asked}
        ready = {user: at + self._transfers[user].transfer.row_cycles for user, at in taken.items()}
        moving = max(self._free, min(ready.values()))
        user = self._next([user for user, at in ready.items() if at <= moving])
        progress = self._transfers[user]
        count_bytes, _, last = progress.take(self._cost.burst_bytes)
        delayed = math.ceil(moving) - max(ready[user], progress.ended)
        self._free = moving + count_bytes / self._cost.bytes_per_cycle
        begin, end = math.ceil(moving), math.ceil(self._free)
        progress.ended = end
        self._ends.setdefault(user, deque(maxlen=self._cost.reads_in_flight)).append(end)
        if last:
            del self._asked[user]
        else:
            self._asked[user] = taken[user] + 1
        return Burst(
            user=user,
            begin=begin,
            end=end,
            count_bytes=count_bytes,
            port_cycles=max(delayed, 0),
            last=last,
        )

    def _next(self, waiting: list[int]) -> int:
        """Return which of the users whose bytes are there ends its burst first."""
        ports = sorted(waiting)
        ends = {}
        for before, user in zip([ports[-1], *ports], ports, strict=False):
            turns = (user - before) % _PORTS or _PORTS
            count_bytes = min(self._transfers[user].bytes_left, self._cost.burst_bytes)
            begin = max(self._ended.get(user, 0.0), self._turn)
            ends[user] = self._begun.setdefault(user, begin) + count_bytes / turns
        user = min(ports, key=lambda each: ends[each])
        self._turn = self._begun.pop(user)
        self._ended[user] = ends[user]
        return user

    def _taken(self, user: int) -> int:
        """Return when the next request of a user is taken."""
        ends = self._ends.get(user)
        is_full = ends is not None and len(ends) == ends.maxlen
        return max(self._asked[user], ends[0]) if ends and is_full else self._asked[user]

    def _request(self, user: int, at: int) -> None:
        self._asked[user] = at


def port_of(cost: CostModel) -> Port:
    """Return a port at rest that works as ``cost`` says."""
    return PipelinedPort(cost) if cost.reads_in_flight else SerialPort(cost)
