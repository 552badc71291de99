"""Cameras on the network: pictures over HTTP as MJPEG, and a video over RTSP."""

from __future__ import annotations

import base64
import math
import re
import socket
import socketserver
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import numpy as np

CLIP = Path(__file__).parents[3] / "examples/pedestrians.avi"
SIDE = 64  # pixels of a picture over HTTP


class MjpegCamera:
    """Sends one grey picture again and again as multipart/x-mixed-replace, as many cameras do.

    There are ``period_s`` seconds between two pictures.
    """

    def __init__(self, period_s: float = 0.02) -> None:
        self.period_s = period_s
        self.left: float = math.inf  # pictures to send; without any, connections are silent
        self._server: ThreadingHTTPServer | None = None
        picture = np.full((SIDE, SIDE, 3), 128, np.uint8)
        self._jpeg = cv2.imencode(".jpg", picture)[1].tobytes()
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/video.mjpg"

    def start(self) -> None:
        """Serve, on the port of last time."""
        camera = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=next")
                self.end_headers()
                server = camera._server
                try:
                    while camera._server is server:
                        if camera.left > 0:
                            camera.left -= 1
                            head = "--next\r\nContent-Type: image/jpeg\r\n"
                            head += f"Content-Length: {len(camera._jpeg)}\r\n\r\n"
                            self.wfile.write(head.encode() + camera._jpeg + b"\r\n")
                        time.sleep(camera.period_s)
                except OSError:  # the reader has gone
                    pass

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """End all connections, and refuse new ones."""
        server, self._server = self._server, None
        assert server is not None
        server.shutdown()
        server.server_close()


@contextmanager
def rtsp_camera(user: str = "", password: str = "") -> Iterator[str]:
    """Serve the example's video over RTSP, inside the TCP connection (RFC 2326, 10.12)."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(type=socket.SOCK_DGRAM) as packets:
        packets.bind(("127.0.0.1", 0))
        description = Path(folder) / "video.sdp"
        encoder = subprocess.Popen(
            [
                *("ffmpeg", "-nostdin", "-loglevel", "error", "-re", "-stream_loop", "-1"),
                *("-i", CLIP, "-vf", "scale=128:96", "-c:v", "libx264", "-preset", "ultrafast"),
                *("-tune", "zerolatency", "-g", "5", "-bsf:v", "dump_extra"),
                *("-sdp_file", description),
                *("-f", "rtp", f"rtp://127.0.0.1:{packets.getsockname()[1]}"),
            ]
        )
        wanted = base64.b64encode(f"{user}:{password}".encode()).decode()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while request := self._request():
                    method, _, fields = request
                    allowed = not user or fields.get("authorization") == f"Basic {wanted}"
                    answer = ["RTSP/1.0 200 OK" if allowed else "RTSP/1.0 401 Unauthorized"]
                    answer += [f"CSeq: {fields['cseq']}", "Session: 7"]
                    body = ""
                    if not allowed:
                        answer.append('WWW-Authenticate: Basic realm="camera"')
                    elif method == "OPTIONS":
                        answer.append("Public: DESCRIBE, SETUP, PLAY, TEARDOWN")
                    elif method == "DESCRIBE":
                        body = self._describe()
                        answer += ["Content-Type: application/sdp", f"Content-Length: {len(body)}"]
                    elif method == "SETUP":
                        answer.append("Transport: RTP/AVP/TCP;unicast;interleaved=0-1")
                    self.wfile.write(("\r\n".join(answer) + "\r\n\r\n" + body).encode())
                    if allowed and method == "PLAY":
                        self._play()

            def _request(self) -> tuple[str, str, dict[str, str]] | None:
                lines = []
                while line := self.rfile.readline().decode().strip():
                    lines.append(line)
                if not lines:
                    return None
                method, url, _ = lines[0].split()
                pairs = (line.split(":", 1) for line in lines[1:])
                return method, url, {name.lower(): value.strip() for name, value in pairs}

            def _describe(self) -> str:
                while not description.exists() or "m=video" not in description.read_text():
                    time.sleep(0.01)
                text = description.read_text().removeprefix("SDP:\n").strip()
                return re.sub(r"m=video \d+", "m=video 0", text).replace("\n", "\r\n") + "\r\n"

            def _play(self) -> None:
                while True:
                    packet = packets.recv(65536)
                    head = b"$\0" + len(packet).to_bytes(2, "big")
                    self.wfile.write(head + packet)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address, daemon_threads = True, True

            def handle_error(self, *_: object) -> None:
                pass  # the reader has gone

        with Server(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            name = f"{user}:{password}@" if user else ""
            try:
                yield f"rtsp://{name}127.0.0.1:{server.server_address[1]}/street"
            finally:
                encoder.kill()
                encoder.wait()
                server.shutdown()
