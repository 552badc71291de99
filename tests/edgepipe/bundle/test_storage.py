"""Bundles on disk: complete or absent, equal bytes for equal content, damage is detected."""

import dataclasses
import json
import os
import subprocess
import tarfile

import pytest
from tiny_bundle import FILES, manifest

from edgepipe.bundle import storage
from edgepipe.bundle.manifest import from_json, tensor_bytes, to_json
from edgepipe.errors import BundleError
from vta_stages.accelerator import Accelerator


@pytest.fixture(params=["net", "net.edgepipe"], ids=["folder", "archive"])
def bundle(request, tmp_path):
    path = tmp_path / request.param
    storage.write(path, FILES, manifest)
    return path


def snapshot(path):
    if path.is_dir():
        return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    return path.read_bytes()


def test_a_bundle_reads_back_as_it_was_written(bundle):
    read = storage.check(bundle)
    assert read == manifest(read.files)
    assert {e.path: storage.read_file(bundle, e) for e in read.files} == FILES


def test_the_same_content_gives_the_same_bytes(bundle, tmp_path):
    again = tmp_path / "again" / bundle.name
    storage.write(again, dict(reversed(FILES.items())), manifest)
    assert snapshot(again) == snapshot(bundle)


def test_writing_again_replaces_the_bundle_and_leaves_nothing_else(bundle):
    storage.write(bundle, {"only": b"1"}, manifest)
    assert [e.path for e in storage.check(bundle).files] == ["only"]
    assert list(bundle.parent.iterdir()) == [bundle]


def test_a_failed_write_keeps_the_old_bundle(bundle):
    before = snapshot(bundle)
    with pytest.raises(TypeError):
        storage.write(bundle, FILES | {"bad": 7}, manifest)
    assert snapshot(bundle) == before
    assert list(bundle.parent.iterdir()) == [bundle]


def test_a_folder_that_is_not_a_bundle_is_not_overwritten(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("irreplaceable")
    with pytest.raises(BundleError, match="exists and is not a bundle"):
        storage.write(tmp_path / "mine", FILES, manifest)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "irreplaceable"


def test_a_file_with_an_archives_name_is_protected_too(tmp_path):
    for content in (b"", b"irreplaceable", bytes(2048)):
        (tmp_path / "mine.edgepipe").write_bytes(content)
        with pytest.raises(BundleError, match="exists and is not a bundle"):
            storage.write(tmp_path / "mine.edgepipe", FILES, manifest)
        assert (tmp_path / "mine.edgepipe").read_bytes() == content
    (tmp_path / "folder.edgepipe").mkdir()
    with pytest.raises(BundleError, match="expected an archive"):
        storage.write(tmp_path / "folder.edgepipe", FILES, manifest)


def test_a_damaged_bundle_may_be_replaced(bundle):
    if bundle.is_dir():
        (bundle / "golden" / "frame.bin").unlink()
    else:
        bundle.write_bytes(bundle.read_bytes()[:700])
    storage.write(bundle, FILES, manifest)
    storage.check(bundle)


@pytest.mark.parametrize("name", ["n" * 255, "n" * 246 + ".edgepipe"])
def test_the_longest_name_works_and_one_more_letter_is_an_error(tmp_path, name):
    storage.write(tmp_path / name, FILES, manifest)
    storage.check(tmp_path / name)
    with pytest.raises(BundleError, match=r"cannot be written \(File name too long\)"):
        storage.check_replaceable(tmp_path / f"n{name}")


@pytest.mark.parametrize("failing", [1, 2])
def test_an_interruption_between_the_renames_brings_the_old_bundle_back(
    tmp_path, monkeypatch, failing
):
    path = tmp_path / "net"
    storage.write(path, FILES, manifest)
    before = snapshot(path)
    done = []
    rename = type(path).rename

    def interrupted(source, target):
        done.append(rename(source, target))
        if len(done) == failing:
            raise KeyboardInterrupt

    monkeypatch.setattr(type(path), "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        storage.write(path, {"only": b"1"}, manifest)
    if failing == 1:
        assert snapshot(path) == before
    else:
        assert [e.path for e in storage.check(path).files] == ["only"]
    assert list(tmp_path.iterdir()) == [path]


def test_every_flipped_byte_of_the_manifest_is_found(tmp_path):
    path = tmp_path / "net"
    storage.write(path, FILES, manifest)
    for name in ("manifest.json", "manifest.digest"):
        good = (path / name).read_bytes()
        for position in range(len(good)):
            flipped = bytes([good[position] ^ 1])
            (path / name).write_bytes(good[:position] + flipped + good[position + 1 :])
            with pytest.raises(BundleError, match=r"manifest\.json does not have the digest"):
                storage.read_manifest(path)
        (path / name).unlink()
        with pytest.raises(BundleError, match=rf"{name} is missing"):
            storage.read_manifest(path)
        (path / name).write_bytes(good)


@pytest.mark.parametrize("name", ["manifest.json", "manifest.digest"])
def test_a_flipped_byte_of_the_manifest_in_an_archive_is_found(tmp_path, name):
    path = tmp_path / "net.edgepipe"
    storage.write(path, FILES, manifest)
    with tarfile.open(path) as archive:
        member = archive.getmember(name)
    content = bytearray(path.read_bytes())
    for position in range(0, member.size, 7):
        altered = content.copy()
        altered[member.offset_data + position] ^= 1
        path.write_bytes(altered)
        with pytest.raises(BundleError, match=r"manifest\.json does not have the digest"):
            storage.read_manifest(path)


def test_a_missing_bundle_is_an_error(tmp_path):
    with pytest.raises(BundleError, match="no such bundle"):
        storage.check(tmp_path / "none")


def test_a_file_that_is_not_an_archive_is_an_error(tmp_path):
    path = tmp_path / "net.edgepipe"
    path.write_bytes(b"hello" * 1000)
    with pytest.raises(BundleError, match="not a bundle, or truncated"):
        storage.check(path)


@pytest.mark.parametrize("length", [0, 100, 512, 3000, 8000])
def test_a_truncated_archive_is_an_error(tmp_path, length):
    path = tmp_path / "net.edgepipe"
    storage.write(path, FILES, manifest)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BundleError):
        storage.check(path)


def test_altered_truncated_and_missing_files_are_found(tmp_path):
    path = tmp_path / "net"
    storage.write(path, FILES, manifest)
    golden = path / "golden" / "frame.bin"
    good = golden.read_bytes()
    golden.write_bytes(good[:-1] + b"?")
    with pytest.raises(BundleError, match=r"golden/frame.bin does not have the digest"):
        storage.check(path)
    golden.write_bytes(good[:-1])
    with pytest.raises(BundleError, match=r"golden/frame.bin has 10239 bytes, .* says 10240"):
        storage.check(path)
    golden.unlink()
    with pytest.raises(BundleError, match=r"golden/frame.bin is missing"):
        storage.check(path)


def test_a_file_that_the_manifest_does_not_list_is_damage(tmp_path):
    storage.write(tmp_path / "net", FILES, manifest)
    (tmp_path / "net" / "golden" / "more.bin").write_bytes(b"?")
    with pytest.raises(BundleError, match=r"golden/more\.bin is not listed in the manifest"):
        storage.check(tmp_path / "net")
    storage.write(tmp_path / "net.edgepipe", FILES, manifest)
    with tarfile.open(tmp_path / "net.edgepipe", "a") as archive:
        archive.addfile(tarfile.TarInfo("more.bin"))
    with pytest.raises(BundleError, match=r"more\.bin is not listed in the manifest"):
        storage.check(tmp_path / "net.edgepipe")


def test_a_pipe_is_not_a_bundle(tmp_path):
    os.mkfifo(tmp_path / "net.edgepipe")
    with pytest.raises(BundleError, match="neither a file nor a folder") as caught:
        storage.check(tmp_path / "net.edgepipe")
    assert caught.value.hint == ("name a bundle: a folder, or an archive that ends in .edgepipe")


def test_a_damaged_manifest_and_another_format_are_errors():
    text = to_json(manifest(()))
    with pytest.raises(BundleError, match=r"manifest\.json is damaged"):
        from_json("[" * 100_000, "net")
    with pytest.raises(BundleError, match=r"manifest\.json is damaged"):
        from_json(text[:-10], "net")
    with pytest.raises(BundleError, match="bundle format 7, this edgepipe reads format 2"):
        from_json(to_json(dataclasses.replace(manifest(()), format=7)), "net")
    with pytest.raises(BundleError, match="unknown key 'colour'"):
        from_json(text.replace('"name": "net"', '"colour": 1, "name": "net"', 1), "net")


@pytest.mark.parametrize("format_version", ["2\n", ["\n"]])
def test_another_format_is_named_in_one_line(format_version):
    with pytest.raises(BundleError, match=r"bundle format .*, this edgepipe reads") as caught:
        from_json(json.dumps({"format": format_version}), "net")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("format_version", [1, 7])
def test_another_format_is_named_regardless_of_its_digests(tmp_path, format_version):
    path = tmp_path / "net"
    storage.write(path, FILES, manifest)
    text = json.loads((path / "manifest.json").read_text()) | {"format": format_version}
    (path / "manifest.json").write_text(json.dumps(text))
    (path / "manifest.digest").write_text("a3b9e4f0dce9df003ed6da673667c0c8\n")
    with pytest.raises(BundleError) as caught:
        storage.read_manifest(path)
    assert str(caught.value) == (
        f"{path}: bundle format {format_version}, this edgepipe reads format 2"
    )
    assert caught.value.hint == "build the bundle with this version of edgepipe"


def test_digests_are_those_of_sha256sum(tmp_path):
    path = tmp_path / "net"
    storage.write(path, FILES, manifest)
    listed = "".join(f"{e.sha256}  {e.path}\n" for e in storage.check(path).files)
    listed += f"{(path / 'manifest.digest').read_text().strip()}  manifest.json\n"
    subprocess.run(["sha256sum", "--check", "--quiet"], input=listed.encode(), cwd=path, check=True)


def test_tensor_bytes_count_padding_lanes_of_the_accelerators_layout():
    accelerator = Accelerator()
    assert tensor_bytes((1, 124, 13, 13), "int8", "vta", accelerator) == 8 * 13 * 13 * 16
    assert tensor_bytes((1, 3, 16, 12), "int8", "vta_2x2", accelerator) == 8 * 6 * 16
    assert tensor_bytes((1, 3, 16, 12), "int8", "vta_4x4", accelerator) == 3 * 4 * 3 * 16
    assert tensor_bytes((1, 124, 13, 13), "int8", "nchw", accelerator) == 124 * 13 * 13
    assert tensor_bytes((1, 9, 44), "float32", "nchw", accelerator) == 9 * 44 * 4


@pytest.mark.parametrize("target", ["manifest.json", "manifest.digest"])
def test_a_link_in_the_place_of_a_file_is_refused_and_not_followed(tmp_path, target):
    path = tmp_path / "net.edgepipe"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in ("manifest.json", "manifest.digest"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    with pytest.raises(BundleError, match=r"manifest\.json is not a regular file") as caught:
        storage.check(path)
    assert caught.value.hint.startswith("do not use this bundle")


def test_an_integer_beyond_every_float_is_refused_with_its_key():
    table = json.loads(to_json(manifest(())))
    table["postprocess"]["unclip"] = 10**400
    with pytest.raises(BundleError) as caught:
        from_json(json.dumps(table), "net")
    assert str(caught.value) == (
        "net: manifest.json: postprocess: unclip: found an integer that is too large for a float"
    )
