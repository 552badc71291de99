"""A headless Firefox through its own remote protocol, Marionette: Debian has no geckodriver."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from needs import installed

_LIMIT_S = 120
_SCHEMES = {"dark": 0, "light": 1}
# A free port, which Firefox writes into its profile; no start page, no reports, no updates.
_PREFERENCES = {
    "marionette.port": 0,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "browser.aboutwelcome.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "extensions.getAddons.cache.enabled": False,
    "services.settings.server": "data:,",
    "browser.safebrowsing.blockedURIs.enabled": False,
    "toolkit.legacyUserProfileCustomizations.stylesheets": True,
}
# Lets the window be as narrow as a telephone.
_NARROW = ":root, body, #navigator-toolbox { min-width: 0 !important; }\n"


class Firefox:
    """A running browser; its pages are those of one window."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        self._sent = 0
        self._receive()  # a greeting
        self.call("WebDriver:NewSession", {"capabilities": {"alwaysMatch": {}}})

    def call(self, name: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Send a command of the protocol, and return its answer."""
        self._sent += 1
        command = json.dumps([0, self._sent, name, dict(parameters or {})]).encode()
        self._connection.sendall(b"%d:%b" % (len(command), command))
        _, _, error, answer = self._receive()
        assert error is None, (name, error)
        return answer

    def _receive(self) -> Any:
        digits = b""
        while not digits.endswith(b":"):
            digit = self._stream.read(1)
            assert digit, "Firefox has closed the connection"
            digits += digit
        return json.loads(self._stream.read(int(digits[:-1])))

    def get(self, url: str) -> None:
        """Load a page."""
        self.call("WebDriver:Navigate", {"url": url})

    def run(self, script: str) -> Any:
        """Return what the body of a function in JavaScript returns in the page."""
        return self.call("WebDriver:ExecuteScript", {"script": script, "args": []})["value"]

    def wait_until(self, expression: str) -> None:
        """Wait until an expression in JavaScript is true in the page."""
        end = time.monotonic() + _LIMIT_S
        while not self.run(f"return Boolean({expression})"):
            assert time.monotonic() < end, expression
            time.sleep(0.1)

    def resize(self, width: int, height: int) -> None:
        """Give the page's view a size in pixels."""
        around = self.run("return [outerWidth - innerWidth, outerHeight - innerHeight]")
        size = {"width": width + around[0], "height": height + around[1]}
        self.call("WebDriver:SetWindowRect", size)
        self.wait_until(f"innerWidth === {width} && innerHeight === {height}")

    def screenshot(self) -> np.ndarray:
        """Return what the view shows: uint8[height, width, 3] in BGR."""
        encoded = self.call("WebDriver:TakeScreenshot", {"full": False})["value"]
        picture = cv2.imdecode(np.frombuffer(base64.b64decode(encoded), np.uint8), cv2.IMREAD_COLOR)
        assert picture is not None
        return picture


def _write_profile(folder: Path, scheme: str) -> None:
    preferences = _PREFERENCES | {
        "layout.css.prefers-color-scheme.content-override": _SCHEMES[scheme]
    }
    lines = [
        f"user_pref({json.dumps(key)}, {json.dumps(preferences[key])});" for key in preferences
    ]
    (folder / "user.js").write_text("\n".join(lines))
    (folder / "chrome").mkdir()
    (folder / "chrome/userChrome.css").write_text(_NARROW)


@contextmanager
def open_firefox(scheme: str) -> Iterator[Firefox]:
    """Yield a headless Firefox with a fresh profile; ``scheme`` is "light" or "dark"."""
    program = installed("firefox-esr", "firefox-esr")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        profile = Path(name)
        _write_profile(profile, scheme)
        command = [program, "--headless", "--marionette", "--no-remote", "--profile", name]
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": name},
        )
        try:
            with socket.create_connection(("127.0.0.1", _port(profile, process)), 60) as made:
                made.settimeout(_LIMIT_S)
                yield Firefox(made)
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _port(profile: Path, process: subprocess.Popen[bytes]) -> int:
    written = profile / "MarionetteActivePort"
    end = time.monotonic() + _LIMIT_S
    while not (written.exists() and written.read_text().strip()):
        assert process.poll() is None, "Firefox has ended"
        assert time.monotonic() < end, "Firefox does not listen"
        time.sleep(0.1)
    return int(written.read_text())
