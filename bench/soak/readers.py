"""Readers of the live page that read everything."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading


class Readers:
    """Reads the page's events and pictures until closed; checks the order of the frames."""

    def __init__(self, port: int, *, count: int) -> None:
        self.events = self.pictures = self.refused = 0
        self.violations: list[str] = []
        self._port = port
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._read, name=f"reader-{index}", daemon=True)
            for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End all readers."""
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def _read(self) -> None:
        while not self._ended.wait(0.2):
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._read_events()

    def _read_events(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/events")
            answer = connection.getresponse()
            if answer.status != 200:
                with self._lock:
                    self.refused += 1
                return
            last, kind = -1, ""
            while not self._ended.is_set() and (line := answer.readline()):
                if line.startswith(b"event: "):
                    kind = line[7:].strip().decode()
                elif line.startswith(b"data: ") and kind == "result":
                    frame = int(json.loads(line[6:])["frame"])
                    self._saw(frame, last)
                    last = frame

    def _saw(self, frame: int, last: int) -> None:
        with self._lock:
            self.events += 1
            if frame <= last:
                self.violations.append(f"the page shows frame {frame} after frame {last}")
            wanted = self.events % 10 == 0
        if wanted:
            self._fetch(frame)

    def _fetch(self, frame: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", f"/picture/{frame}")
            answer = connection.getresponse()
            content = answer.read()
            with self._lock:
                if answer.status == 200 and content:
                    self.pictures += 1
                elif answer.status not in (404, 503):  # no longer available, or too many readers
                    self.violations.append(f"/picture/{frame}: status {answer.status}")
