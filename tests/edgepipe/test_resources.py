"""Documents and examples in a text become paths that exist where the command runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgepipe import resources

OWN = resources.folder("docs")


def test_in_the_repository_names_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    text = "see docs/guides/board.md and examples/own_board/zcu102.toml."
    assert resources.with_paths(text) == text


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("elsewhere")
def test_elsewhere_they_are_the_paths_of_the_packages_own_files() -> None:
    board = OWN / "guides" / "board.md"
    assert resources.with_paths("see docs/guides/board.md.") == f"see {board}."
    assert resources.with_paths("(docs/guides/board.md), a") == f"({board}), a"
    pictures = resources.folder("examples") / "calibration"
    assert resources.with_paths("--calib examples/calibration -o") == f"--calib {pictures} -o"
    manual = resources.folder("bitstreams") / "README.md"
    assert resources.with_paths("bitstreams/README.md") == str(manual)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "text",
    [
        "docs/guides/nowhere.md",
        "/srv/docs/guides/board.md",
        "https://example.org/docs/guides/board.md",
        "my-docs/guides/board.md",
        "the docs/",
        "",
    ],
)
def test_what_is_not_a_file_of_the_package_stays_as_it_is(text: str) -> None:
    assert resources.with_paths(text) == text


def test_a_file_of_the_same_name_in_the_working_folder_stays(elsewhere: Path) -> None:
    (elsewhere / "docs" / "guides").mkdir(parents=True)
    (elsewhere / "docs" / "guides" / "board.md").touch()
    assert resources.with_paths("docs/guides/board.md") == "docs/guides/board.md"
