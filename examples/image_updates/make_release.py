"""Write the release of a bundle into an image's folder, with the files that a deploy would send.

    python examples/image_updates/make_release.py build/demo/nanodet.edgepipe \
        --architecture aarch64 --name 2026.11 --image build/image

The release is then `usr/lib/edgepipe/release` in the image, next to the scripts that check it and
make it current. Its programs are those of `edgepipe deploy`: from `make board` or edgepipe_boards.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tarfile
from pathlib import Path

from edgepipe import __version__
from edgepipe.deploy import deployment, payload
from edgepipe.errors import EdgepipeError

FOLDER = "usr/lib/edgepipe"
SCRIPTS = ("golden_run.sh", "adopt_release.sh", "accept_image.sh")
UNIT = "edgepipe-image.service"


def write(bundle: Path, architecture: str, name: str, image: Path, runtime: list[Path]) -> None:
    """Write release, scripts and unit into ``image``; replace those of another release."""
    source = deployment.open_source(bundle)
    files = [*payload.find_runtime(architecture, runtime), *source.files]
    # No time and no user: the same bundle and programs give the same image.
    record = payload.ReleaseRecord(
        name=name, builder_version=__version__, deployed_by="image", deployed_at=""
    )
    archive = payload.make_archive(files, {}, "release", payload.make_record(record))
    folder = image / FOLDER
    shutil.rmtree(folder / "release", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder)
    here = Path(__file__).parent
    for script in SCRIPTS:
        shutil.copy(here / script, folder / script)
    units = image / "etc/systemd/system"
    wanted = units / "multi-user.target.wants"
    wanted.mkdir(parents=True, exist_ok=True)
    shutil.copy(here / UNIT, units / UNIT)
    link = wanted / UNIT
    link.unlink(missing_ok=True)
    link.symlink_to(f"/etc/systemd/system/{UNIT}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--architecture", required=True, choices=("aarch64", "armhf", "x86_64"))
    parser.add_argument(
        "--name", required=True, help="name of the release, as `deploy --list` shows"
    )
    parser.add_argument("--image", required=True, type=Path, help="folder with the image's files")
    parser.add_argument("--runtime", type=Path, action="append", default=[], help="edgepipe-run")
    options = parser.parse_args()
    try:
        write(options.bundle, options.architecture, options.name, options.image, options.runtime)
    except EdgepipeError as error:
        print(f"make_release.py: {error}\nhint: {error.hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
