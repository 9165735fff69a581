"""Self-describing artefact folders: whole or absent, with a manifest of what made them.

A command writes into a temporary sibling, which takes the output's name in one rename at the end.
A process killed at any moment therefore leaves either the old folder or the new one.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tasc import __version__
from tasc.environment import environment
from tasc.errors import InputError, IntegrityError
from tasc.files import folders
from tasc.files.disk import files_below, flush, flush_below, remedy, writing
from tasc.files.resume import resumable

MANIFEST = "manifest.json"
_STAMPS = {"command", "key", "content", "files"}  # others have files of this name, too


@dataclass(frozen=True)
class Step:
    """What an artefact depends on: equal steps make equal artefacts.

    ``arguments`` are JSON values; ``inputs`` maps those that name something read to a fingerprint
    of its contents, which stands for the name: a moved input is still the same input.
    """

    command: str
    arguments: Mapping[str, Any]
    inputs: Mapping[str, str]

    @property
    def key(self) -> str:
        """Hash of the step and of the version that carries it out."""
        values = {name: v for name, v in self.arguments.items() if name not in self.inputs}
        parts = [__version__, self.command, values, dict(self.inputs)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Workspace:
    """Where a running command writes: ``folder`` becomes the artefact, ``work`` survives a kill."""

    folder: Path
    work: Path


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of an artefact folder.

    Raises:
        InputError: ``folder`` is not an artefact.
        IntegrityError: its manifest cannot be read.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(
            f"{folder} has no {MANIFEST}: tasc did not write it; name a folder that it wrote"
        )
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(manifest, dict):
            raise ValueError("no JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise IntegrityError(f"{path} is damaged ({error}): delete {folder}, run again") from error
    return manifest


def fingerprint(path: Path) -> str:
    """Hash a file or folder; an artefact is known by what its manifest says it holds.

    In a folder, links to files count as files, and pipes, devices and links to folders as nothing.
    Raises InputError where ``path`` is neither a file nor a folder.
    """
    if (path / MANIFEST).is_file():
        return str(read_manifest(path).get("content", ""))
    if not path.is_dir() and not path.is_file():
        raise InputError(f"{path} is neither a file nor a folder: name one")
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{_hash_file(file)}\0".encode())
    return digest.hexdigest()


def up_to_date(output: Path, step: Step) -> bool:
    """Say whether ``output`` is a whole artefact that ``step`` would make again."""
    if not (output / MANIFEST).is_file():
        return False
    return read_manifest(output).get("key") == step.key


def check_output(output: Path, *, force: bool) -> None:
    """Refuse an output folder that must not or cannot be written, before any work is done."""
    try:
        if output.name in ("", "..") or Path.cwd().is_relative_to(os.path.realpath(output)):
            raise InputError(
                f"output {output} is the folder you are in, or above: name one below it"
            )
        if output.is_mount():
            raise InputError(f"output {output} is where a disk begins: name a folder below it")
        _check_replaced(output, output, force=force)
        folders.owner(next(p for p in output.absolute().parents if p.exists()) / output.name)
    except OSError as error:
        raise InputError(
            f"output {output} cannot be written: {error.strerror}: "
            f"{remedy(error, 'name another folder')}"
        ) from error


def check_kept(output: Path, read: Iterable[Path]) -> None:
    """Refuse an output that would replace something that is read."""
    for path in read:
        if path.exists() and path.resolve().is_relative_to(os.path.realpath(output)):
            raise InputError(
                f"output {output} would replace {path}, which is read: name another folder"
            )


def _check_replaced(output: Path, path: Path, *, force: bool) -> None:
    """Refuse to replace what lies at ``path``, which is or was ``output``, unless it is ours."""
    if path.is_symlink():
        raise InputError(f"output {output} is a link: name the folder it leads to, or remove it")
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise InputError(f"output {output} is a file: name a folder with --output")
    ours = (path / MANIFEST).is_file() and read_manifest(path).keys() >= _STAMPS
    if not ours and any(path.iterdir()):
        raise InputError(f"output {output} holds files tasc did not write: name another folder")
    if ours and not force:
        raise InputError(f"output {output} already exists: pass --force to replace it")


@contextmanager
def create(
    output: Path, step: Step, *, force: bool, seed: int | None = None, insist: bool = False
) -> Iterator[Workspace]:
    """Write an artefact: yields a workspace, then stamps it and moves it to ``output``.

    When the body fails, ``output`` is as it was; ``work`` is kept only if the body put files there,
    and only for a later run of the same step; with ``insist``, those of another step are refused
    and not deleted. What the artefact holds is on the disk before it takes its name.

    Raises:
        InputError: another run writes there, or something of others is in the way.
        StorageError: there is no room for it.
    """
    check_output(output, force=force)
    with writing(output):
        _make_parents(output)
        with resumable(output, step.key, insist=insist) as work:
            _check_replaced(output, output, force=force)  # by a run that ended just now
            folders.sweep(output)
            folder = folders.fresh(output, "new")
            folder.mkdir()
            made, started = folder.lstat(), time.time()
            try:
                with writing(folder):
                    yield Workspace(folder, work)
                    write_json(folder / MANIFEST, _describe(folder, step, started, seed))
                    folders.share(folder, folder / MANIFEST)
                    flush_below(folder)
                folders.publish(folder, output, partial(_check_replaced, output, force=force))
            except BaseException:
                with suppress(OSError):
                    if os.path.samestat(made, folder.lstat()):
                        folders.remove(folder)
                raise


def _make_parents(output: Path) -> None:
    """Make the folders above ``output``, and see that their names are on the disk, too."""
    missing = [folder for folder in output.absolute().parents if not folder.exists()]
    output.parent.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        flush(folder.parent)


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as readable JSON that ends in a newline."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _describe(folder: Path, step: Step, started: float, seed: int | None) -> dict[str, Any]:
    contents = {str(p.relative_to(folder)): _hash_file(p) for p in files_below(folder)}
    return {
        "command": step.command,
        "arguments": dict(step.arguments),
        "inputs": dict(step.inputs),
        "key": step.key,
        "content": hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest(),
        "files": contents,
        "seed": seed,
        "command_line": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 3),
        "environment": environment(),
    }


def _hash_file(path: Path) -> str:
    if path.exists() and not path.is_file():  # a pipe or a device may never end
        raise InputError(f"{path} is no file: name a file or a folder")
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}: name what can be") from error
