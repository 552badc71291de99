"""The commands of the tutorials that need a board, as they are written."""

import re
import shutil

import pytest
import tutorials
from ports import free_port

pytestmark = [pytest.mark.board, pytest.mark.models, pytest.mark.systems]


@pytest.fixture
def folder(tmp_path, resnet8):
    """Return a folder with the bundle that the tutorials build."""
    shutil.copyfile(resnet8, tmp_path / "clothes.edgepipe")
    return tmp_path


@pytest.fixture
def cache(tmp_path, virtual_board):
    """Return variables with which the commands find the tests' board as the user's own."""
    (tmp_path / "cache/edgepipe").mkdir(parents=True)
    (tmp_path / "cache/edgepipe/virtual-board").symlink_to(virtual_board.folder)
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_the_first_hour(board, folder, cache):
    script = tutorials.commands("first-hour", on_board=True)
    port = free_port()
    for words in ("8080:127", "127.0.0.1:8080/ --output"):
        assert script.count(words) == 1
        script = script.replace(words, words.replace("8080", str(port)))
    said = tutorials.run(script, folder, cache)
    assert "Avnet Ultra96" in said
    assert "unchanged" in said  # the second deploy
    assert re.search(r"\d+ submitted = \d+ delivered", said)
    assert "<!doctype html" in (folder / "page.html").read_text().lower()
    assert "running the frame again" in said
    assert (folder / "board.json").is_file()


def test_the_first_day(board, folder):
    script = tutorials.commands("first-day", on_board=True)
    said = tutorials.run(script, folder, {"BOARD": " ".join(board.options)})
    assert "coherency" in said
    assert (folder / "report.html").is_file()


def test_a_fleet_of_one(board, folder, cache):
    (folder / "boards.toml").write_text(tutorials.files("application")["boards.toml"])
    said = tutorials.run(tutorials.commands("application", on_board=True), folder, cache)
    assert "virtual-ultra96" in said
