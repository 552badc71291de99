"""A client of an RPC server that runs a bundle endlessly until a test kills it."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from edgepipe import rpc


def kill_a_client_in_a_run(server: rpc.LocalServer, bundle: Path, device: str) -> int:
    """Kill a client in the middle of a run of ``bundle``; return its session's process."""
    code = textwrap.dedent(f"""
        from edgepipe import rpc
        session = rpc.connect({server.port}, key={server.key!r})
        session.remote.upload({str(bundle)!r}, "net.edgepipe")
        net = session.remote.get_function("edgepipe.open_bundle")("net.edgepipe", {device!r})
        net["load_golden"]()
        print(session.info()["process"], flush=True)
        net.time_evaluator("run", session.remote.cpu(0), number=10**9)()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        process = int(client.stdout.readline())
        client.send_signal(signal.SIGKILL)
    return process
