"""Setting a board's wall clock changes no wait of the runtime.

It runs on the virtual board alone, because it sets the clock of the whole machine.
"""

from __future__ import annotations

import pytest
from needs import built

pytestmark = pytest.mark.board

TEST = "SyncTest.SettingTheWallClockChangesNoWait"


@pytest.mark.usefixtures("virtual_board")
def test_setting_the_wall_clock_changes_no_wait(machine, architecture):
    program = built("edgepipe-tests", architecture).read_bytes()
    script = (
        "set -e; cd $(mktemp -d); cat > tests; chmod +x tests;"
        f" EDGEPIPE_TEST_SETS_CLOCK=1 ./tests --gtest_filter={TEST}; rm tests"
    )
    done = machine.run([script], stdin=program, deadline_s=300)
    output = done.stdout.decode()
    assert done.returncode == 0, output + done.stderr.decode()
    assert f"[       OK ] {TEST}" in output
