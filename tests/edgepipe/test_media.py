"""Media: pictures, folders and videos are read in the same way; bad ones give a clear error."""

import os

import cv2
import numpy as np
import pytest

from edgepipe import media
from edgepipe.errors import MediaError


def picture(value):
    return np.full((48, 64, 3), value, np.uint8)


def test_a_folder_yields_its_pictures_by_name(tmp_path):
    for name, value in (("b.png", 20), ("a.png", 10)):
        cv2.imwrite(str(tmp_path / name), picture(value))
    (tmp_path / "notes.txt").write_text("not a picture")
    read = list(media.read_source(tmp_path))
    assert [(p.name, int(p.picture[0, 0, 0])) for p in read] == [("a.png", 10), ("b.png", 20)]


def test_a_large_picture_is_refused_by_its_header_before_it_is_decoded(tmp_path):
    header = b"P6 16384 16384 255\n"
    (tmp_path / "large.ppm").write_bytes(header)
    for read in (lambda path: list(media.read_source(path)), media.read_picture):
        with pytest.raises(MediaError) as error:
            read(tmp_path / "large.ppm")
        assert str(error.value) == (
            f"{tmp_path}/large.ppm: the picture is 16384x16384 pixels, "
            "expected at most 33554432 in all"
        )
        assert error.value.hint == "scale it down, or allow more pixels"
    with pytest.raises(MediaError, match="cannot be decoded as a picture"):
        media.read_picture(tmp_path / "large.ppm", most_pixels=16384 * 16384)


def test_a_long_side_is_refused_as_on_a_board(tmp_path):
    cv2.imwrite(str(tmp_path / "long.png"), np.zeros((1, 16385, 3), np.uint8))
    with pytest.raises(MediaError, match="16385x1 pixels, expected sides of 1 to 16384") as caught:
        media.read_picture(tmp_path / "long.png")
    assert caught.value.hint == "scale it down"


@pytest.mark.parametrize(
    ("name", "kind"), [("a.tif", "TIFF"), ("B.TIFF", "TIFF"), ("c.webp", "WebP")]
)
def test_kinds_that_boards_do_not_read_are_refused_and_not_skipped(tmp_path, name, kind):
    cv2.imwrite(str(tmp_path / name), picture(9))
    cv2.imwrite(str(tmp_path / "z.png"), picture(9))
    text = f"{name}: found a {kind} picture, expected .bmp, .jpeg, .jpg, .pgm, .png or .ppm"
    for source in (tmp_path, tmp_path / name):
        with pytest.raises(MediaError) as caught:
            list(media.read_source(source))
        assert str(caught.value) == f"{tmp_path}/{text}"
        assert caught.value.hint == "convert it to PNG: ffmpeg -i IN OUT.png"
    (tmp_path / name).rename(tmp_path / "z.png")
    with pytest.raises(MediaError, match=rf"z\.png: found a {kind} picture"):
        list(media.read_source(tmp_path))


def test_a_large_video_is_refused_before_its_first_frame(tmp_path):
    path = tmp_path / "clip.mp4"
    with media.VideoWriter(path, 12.0) as writer:
        writer.write(picture(0))
    assert len(list(media.read_source(path, most_pixels=48 * 64))) == 1
    with pytest.raises(MediaError, match="the picture is 64x48 pixels, expected at most 3071 in"):
        list(media.read_source(path, most_pixels=48 * 64 - 1))


def test_a_written_video_reads_back_with_its_rate(tmp_path):
    path = tmp_path / "clip.mp4"
    with media.VideoWriter(path, 12.0) as writer:
        for value in (0, 120, 240):
            writer.write(picture(value))
    frames = list(media.read_source(path))
    assert [f.name for f in frames] == ["clip.mp4#0", "clip.mp4#1", "clip.mp4#2"]
    assert abs(int(frames[1].picture.mean()) - 120) < 6
    assert media.frames_per_second(path) == pytest.approx(12.0)


def test_pictures_of_other_sizes_are_fitted_into_the_first_ones_with_bars(tmp_path):
    path = tmp_path / "clip.mp4"
    with media.VideoWriter(path, 10.0) as writer:
        writer.write(picture(200))
        writer.write(np.full((96, 32, 3), 200, np.uint8))
    frames = [frame.picture for frame in media.read_source(path)]
    assert [frame.shape for frame in frames] == [(48, 64, 3)] * 2
    assert frames[1][:, 26:38].mean() > 180  # 32x96 in 64x48: the middle 16 columns
    assert frames[1][:, :20].mean() < 20
    assert frames[1][:, 44:].mean() < 20


def test_a_video_that_cannot_be_written_is_an_error(tmp_path):
    with (
        pytest.raises(MediaError, match="no MPEG-4 video of 1x1 pixels"),
        media.VideoWriter(tmp_path / "clip.mp4", 10.0) as writer,
    ):
        writer.write(picture(1)[:1, :1])


def test_a_video_that_lost_pictures_is_an_error(tmp_path):
    with (
        pytest.raises(
            MediaError, match=r"clip.mp4: OpenCV cannot write the video: it contains \d+ of 2"
        ),
        media.VideoWriter(tmp_path / "clip.mp4", 10.0) as writer,
    ):
        writer.write(picture(1))
        writer.write(picture(1))
        writer._writer.release()
        (tmp_path / "clip.mp4").write_bytes(b"")


def test_names_that_are_not_utf_8(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    cv2.imwrite(str(tmp_path / "a.png"), picture(9))
    (tmp_path / "a.png").rename(tmp_path / f"{name}.png")
    assert media.read_picture(tmp_path / f"{name}.png").shape == (48, 64, 3)
    (tmp_path / f"{name}.avi").write_bytes(b"RIFF")
    with pytest.raises(MediaError, match="the name is not UTF-8") as caught:
        list(media.read_source(tmp_path / f"{name}.avi"))
    assert caught.value.hint == "rename the file"


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(MediaError, match=r"none\.jpg: no such file"):
        list(media.read_source(tmp_path / "none.jpg"))
    with pytest.raises(MediaError, match="no such file"):
        list(media.read_source(tmp_path / "none.avi"))


@pytest.mark.parametrize("name", ["pipe.png", "pipe.avi"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(MediaError, match=r"cannot be read \(not a regular file\)"):
        list(media.read_source(tmp_path / name))


def test_an_unreadable_video_is_an_error(tmp_path):
    path = tmp_path / "broken.avi"
    path.write_bytes(b"RIFF" + bytes(100))
    with pytest.raises(MediaError, match="no frame could be decoded"):
        list(media.read_source(path))


def test_an_unreadable_picture_is_an_error(tmp_path):
    path = tmp_path / "broken.png"
    path.write_bytes(bytes(100))
    with pytest.raises(MediaError, match="cannot be decoded"):
        media.read_picture(path)


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(MediaError, match="no pictures among 0 entries"):
        list(media.read_source(tmp_path))
