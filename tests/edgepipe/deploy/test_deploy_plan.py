"""The plan and the archive of a release: pure functions of the payload and the inventory."""

import io
import tarfile
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.bitstream import record
from edgepipe.deploy import deployment, payload, plan
from edgepipe.deploy.connection import Target
from edgepipe.deploy.deployment import DeployOptions
from edgepipe.deploy.payload import make_file
from edgepipe.deploy.plan import Inventory, Release, StoredFile
from edgepipe.doctor import survey
from edgepipe.errors import BitstreamError, DeployError

contents = st.sampled_from([b"a", b"b", b"c", b"longer"])
wanted = st.dictionaries(st.sampled_from(["bundle/x", "bundle/y", "bundle/z"]), contents).map(
    lambda files: tuple(make_file(path, content) for path, content in files.items())
)


def stored(folder, files):
    return tuple(StoredFile(folder=folder, path=f.path, sha256=f.sha256) for f in files)


def inventory(current, numbers, files=()):
    releases = tuple(Release(number=n, record=None) for n in numbers)
    return Inventory(current=current, releases=releases, files=files)


@given(new=wanted, old=wanted, keep=st.integers(1, 4))
def test_every_file_is_either_linked_to_equal_content_or_sent(new, old, keep):
    made = plan.make_plan(new, inventory(7, [3, 7], stored("7", old)), keep)
    assert sorted([*made.links, *made.uploads]) == sorted(file.path for file in new)
    digests = {f"7/{file.path}": file.sha256 for file in old}
    by_path = {file.path: file for file in new}
    for path, target in made.links.items():
        assert digests[target] == by_path[path].sha256
    assert made.upload_bytes == sum(len(by_path[path].content) for path in made.uploads)
    same = {f.path: f.sha256 for f in new} == {f.path: f.sha256 for f in old}
    assert made.unchanged == (7 if same else None)


@given(numbers=st.sets(st.integers(1, 50)).map(sorted), keep=st.integers(1, 5))
def test_the_new_number_is_the_highest_and_keep_counts_the_new_release(numbers, keep):
    made = plan.make_plan((), inventory(None, numbers), keep)
    assert made.number == max(numbers, default=0) + 1
    left = [n for n in [*numbers, made.number] if n not in made.pruned]
    assert len(left) == min(keep, len(numbers) + 1)
    assert made.number in left


def test_a_program_is_never_linked_to_a_file_that_is_not_a_program():
    data = make_file("bundle/x", b"same")
    program = make_file("bin/edgepipe-run", b"same", executable=True)
    made = plan.make_plan((program,), inventory(1, [1], stored("1", (data,))), 3)
    assert made.uploads == ("bin/edgepipe-run",)


def test_what_interrupted_deploys_left_can_be_linked_to_but_is_never_current():
    file = make_file("bundle/x", b"same")
    made = plan.make_plan((file,), inventory(None, [], stored(".incoming-12ab", (file,))), 3)
    assert made.links == {"bundle/x": ".incoming-12ab/bundle/x"}
    assert made.unchanged is None


@given(st.text())
def test_any_text_is_an_inventory(text):
    plan.parse_inventory(text)


@given(st.text())
def test_any_text_is_facts_or_an_error_that_names_the_host(text):
    try:
        plan.parse_facts(text, "board")
    except DeployError as error:
        assert str(error).startswith("board: ")


def test_the_archive_holds_files_links_record_and_sums():
    files = (make_file("bin/edgepipe-run", b"p", executable=True), make_file("bundle/x", b"x"))
    raw = payload.make_archive(files, {"bundle/x": "3/bundle/x"}, ".incoming-1", b"{}\n")
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        members = {member.name: member for member in archive.getmembers()}
        sums = archive.extractfile(".incoming-1/SHA256SUMS").read().decode()
    assert members[".incoming-1/bin/edgepipe-run"].mode == 0o755
    assert members[".incoming-1/bundle/x"].islnk()
    assert members[".incoming-1/bundle/x"].linkname == "3/bundle/x"
    assert [line.split("  ")[1] for line in sums.splitlines()] == [
        "bin/edgepipe-run",
        "bundle/x",
        "release.json",
    ]


@pytest.mark.parametrize(
    ("machine", "elf_class", "architecture"),
    [(62, 2, "x86_64"), (183, 2, "aarch64"), (40, 1, "armhf")],
)
def test_a_programs_architecture_is_read_from_its_header(
    tmp_path, machine, elf_class, architecture
):
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF" + bytes([elf_class, 1]) + bytes(12) + bytes([machine, 0]))
    assert payload.architecture_of(path) == architecture
    assert all(file.executable for file in payload.find_runtime(architecture, (path,)))


def test_no_program_for_the_board_is_reported_with_those_found(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\0")
    with pytest.raises(
        DeployError, match=r"no program for armhf boards .*program is for x86_64"
    ) as caught:
        payload.find_runtime("armhf", (path,))
    assert caught.value.hint == "install edgepipe-boards, build it with `make board`, or name one"


def test_missing_programs_are_reported_before_the_board_is_contacted(make_bundle, tmp_path):
    source = deployment.open_source(make_bundle(architecture="aarch64"))
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\0")
    options = DeployOptions(operator="tester@host", runtimes=(program,))
    target = Target(host="no-such-board.invalid", root="edgepipe")
    found = "edgepipe-run: no program for aarch64 boards .*program is for x86_64"
    with mock.patch("edgepipe.resources.folder", lambda name: tmp_path / name):
        with pytest.raises(DeployError, match=found):
            deployment.deploy(target, source, options)
        payload.check_runtime(("aarch64", "x86_64"), (program,))
        payload.check_runtime(("unknown",), ())  # the board's architecture is compared later


def test_this_machines_own_program_is_none_for_the_board(tmp_path):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "edgepipe-run").write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\0")
    with (
        mock.patch("edgepipe.resources.folder", lambda name: tmp_path / name),
        mock.patch("edgepipe.resources.board_folder", lambda _: None),
        mock.patch("sysconfig.get_path", lambda _: str(scripts)),
    ):
        with pytest.raises(DeployError, match="no program for aarch64 boards"):
            payload.check_runtime(("aarch64", "x86_64"), ())
        payload.check_runtime(("x86_64",), ())


DIGITS = "9" * 5000
NESTED = "[" * 100_000


def test_a_number_of_thousands_of_digits_is_not_one_of_a_release():
    found = plan.parse_inventory(f"current {DIGITS}\nrelease {DIGITS} x\n")
    assert found == plan.Inventory(current=None, releases=(), files=())
    assert survey.parse(f"machine a\nkernel b\nrelease {DIGITS} x", "board").release is None


def test_free_space_of_thousands_of_digits_is_not_an_answer():
    df = f"df /dev/root 1 1 {DIGITS} 5% /"
    with pytest.raises(DeployError, match=r"^board: unexpected answer to the pre-flight check"):
        plan.parse_facts(f"machine aarch64\n{df}", "board")
    assert survey.parse(f"machine a\nkernel b\n{df}", "board").free_disk_bytes == 0


def test_deeply_nested_records_are_damaged():
    (release,) = plan.parse_inventory(f"release 3 {NESTED}").releases
    assert release.record is None
    with pytest.raises(BitstreamError, match=r"^board: the record .* is damaged") as e:
        record.parse(NESTED, "board")
    assert e.value.hint.startswith("program the FPGA again")
