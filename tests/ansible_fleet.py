"""Runs playbooks of the Ansible collection in ``board/ansible`` on an inventory of boards."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

COLLECTION = Path(__file__).parents[1] / "board/ansible"
BIN = Path(sys.executable).parent


class AnsibleFleet:
    """The collection, installed into ``folder``, with an inventory of ``hosts``.

    ssh reaches them by ``ssh_config``; ``variables`` are those of all hosts.
    """

    def __init__(
        self, folder: Path, hosts: Sequence[str], ssh_config: Path, variables: Mapping[str, object]
    ) -> None:
        self._folder = folder
        shutil.copytree(COLLECTION, folder / "ansible_collections/edgepipe/fleet")
        common = {
            "edgepipe_command": str(BIN / "edgepipe"),
            "edgepipe_ssh_config": str(ssh_config),
            "ansible_ssh_common_args": f"-F {ssh_config}",
        }
        inventory = {"all": {"hosts": dict.fromkeys(hosts), "vars": {**common, **variables}}}
        (folder / "boards.yml").write_text(json.dumps(inventory))  # JSON is YAML

    def play(
        self, playbook: str, *options: str, **variables: object
    ) -> tuple[int, dict[str, dict[str, int]]]:
        """Run a playbook; return its exit code and, by host, the counts of its recap."""
        given = [f"-e{json.dumps({name: value}, default=str)}" for name, value in variables.items()]
        environment = {
            "ANSIBLE_COLLECTIONS_PATH": str(self._folder),
            "ANSIBLE_HOME": str(self._folder / "home"),
            "ANSIBLE_NOCOLOR": "1",
        }
        command = [BIN / "ansible-playbook", "-i", self._folder / "boards.yml", *options, *given]
        done = subprocess.run(
            [*command, playbook],
            capture_output=True,
            text=True,
            env=os.environ | environment,
            timeout=600,
            check=False,
        )
        _, _, recap = done.stdout.partition("PLAY RECAP")
        counts = {}
        for line in recap.splitlines()[1:]:
            host, _, found = line.partition(":")
            if found:
                counts[host.strip()] = {
                    kind: int(number) for kind, number in re.findall(r"(\w+)=(\d+)", found)
                }
        sys.stdout.write(done.stdout)  # shown if the test fails
        assert counts, done.stderr
        return done.returncode, counts


def changed(counts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return how many tasks changed each host."""
    return {host: found["changed"] for host, found in counts.items()}
