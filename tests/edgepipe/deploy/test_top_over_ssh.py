"""``edgepipe top --host`` through a real sshd."""

import json
import os
from pathlib import Path

import pytest

from edgepipe.cli.main import main
from edgepipe.deploy.connection import Connection
from edgepipe.errors import DeployError
from edgepipe.top import snapshot


def test_pipelines_of_a_board_are_read_over_one_connection(board, tmp_path):
    record = {
        "version": 1,
        "id": f"{os.getpid()}-0",
        "pid": os.getpid(),
        "program": "edgepipe-run",
        "uptime_s": float(Path("/proc/uptime").read_text().split()[0]),
        "live": {
            "network": "net",
            "device": "uio",
            "pipeline": {
                "submitted": 1,
                "delivered": 1,
                "dropped": 0,
                "failed": 0,
                "in_flight": 0,
                "slots": 3,
                "latency": dict.fromkeys(
                    ("count", "min_ms", "median_ms", "p95_ms", "p99_ms", "max_ms", "mean_ms"), 1
                ),
                "elapsed_s": 1.0,
                "frames_per_second": 1.0,
                "stages": [],
            },
        },
    }
    folder = tmp_path / "shm"
    folder.mkdir()
    (folder / f"edgepipe-{os.getpid()}-0.json").write_text(json.dumps(record) + "\n")
    with Connection(board.target(), script=snapshot.BOARD_SIDE) as connection:
        for _ in range(2):
            (found,) = snapshot.read_board(connection, str(folder)).snapshots
            assert (found.network, found.statistics.delivered) == ("net", 1)
        board.link.cut()
        with pytest.raises(DeployError):
            snapshot.read_board(connection, str(folder))


def test_a_board_that_cannot_be_reached_is_an_error(board, capsys):
    board.link.cut()
    arguments = ["--host", board.name, "--ssh-config", str(board.ssh_config)]
    assert main(["top", "--once", *arguments]) == 1
    assert f"{board.name}: cannot connect" in capsys.readouterr().err
