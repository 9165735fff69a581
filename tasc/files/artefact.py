"""Artefact folders: complete or absent, with a manifest of the step that made them.

A command writes into a hidden folder, which is renamed to the output at the end. A process killed
at any moment therefore leaves either the old folder or the new one.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasc import __version__
from tasc.environment import environment
from tasc.errors import InputError, IntegrityError
from tasc.files.disk import files_below, flush, flush_below, remedy, writing
from tasc.files.folders import NEW, owner_of_new, publish
from tasc.files.packaged import sha256
from tasc.files.resume import began, resumable

MANIFEST = "manifest.json"
_STAMPS = {"command", "key", "content", "files"}  # other programs write a manifest.json, too


@dataclass(frozen=True)
class Step:
    """Everything an artefact depends on: equal steps make equal artefacts.

    ``arguments`` are JSON values. ``inputs`` maps the arguments that refer to files or models to a
    fingerprint of their contents, which replaces the path: a moved input is still the same input.
    """

    command: str
    arguments: Mapping[str, Any]
    inputs: Mapping[str, str]

    @property
    def key(self) -> str:
        """Hash of the step and of the version of this package."""
        values = {name: v for name, v in self.arguments.items() if name not in self.inputs}
        parts = [__version__, self.command, values, dict(self.inputs)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Workspace:
    """The folders of a running command."""

    folder: Path  # becomes the artefact
    work: Path  # for checkpoints, which survive a kill
    began: float  # seconds of the epoch; of a resumed run, when the first one began


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of an artefact folder.

    Raises InputError if it is not an artefact, IntegrityError if its manifest cannot be read.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder} is not an output of tasc: it has no {MANIFEST}; choose one")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(manifest, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise IntegrityError(f"{path} is damaged ({error}): delete {folder}, run again") from error
    return manifest


def fingerprint(path: Path) -> str:
    """Hash a file or folder; an artefact is identified by the hashes in its manifest.

    In a folder, links to files count as files; pipes, devices and links to folders are ignored.
    Raises InputError if ``path`` is neither a file nor a folder.
    """
    if (path / MANIFEST).is_file():
        return str(read_manifest(path).get("content", ""))
    if not path.is_dir() and not path.is_file():
        raise InputError(f"{path} is neither a file nor a folder: choose one")
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        digest.update(os.fsencode(file.name) + f"\0{_hash_file(file)}\0".encode())
    return digest.hexdigest()


def up_to_date(output: Path, step: Step) -> bool:
    """Return whether ``output`` is an artefact of ``step`` with all of its files."""
    manifest = read_manifest(output) if (output / MANIFEST).is_file() else {}
    files = manifest.get("files")
    complete = isinstance(files, dict) and all((output / name).is_file() for name in files)
    return complete and manifest.get("key") == step.key


def check_output(output: Path, *, force: bool) -> None:
    """Refuse an output folder that must not or cannot be written, before any work is done."""
    try:
        if output.name in ("", "..") or Path.cwd().is_relative_to(os.path.realpath(output)):
            raise InputError(
                f"output {output} is the current folder or above it: choose one below it"
            )
        if output.is_mount():
            raise InputError(f"output {output} is a mount point: choose a folder below it")
        _check_replaced(output, force=force)
        owner_of_new(next(p for p in output.absolute().parents if p.exists()))
    except OSError as error:
        raise InputError(
            f"cannot write output {output}: {error.strerror}: "
            f"{remedy(error, 'choose another folder')}"
        ) from error


def check_kept(output: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output that would replace an input."""
    for path in inputs:
        if path.exists() and path.resolve().is_relative_to(os.path.realpath(output)):
            raise InputError(
                f"output {output} would replace the input {path}: choose another folder"
            )


def _check_replaced(output: Path, *, force: bool) -> None:
    """Refuse to replace anything but an empty folder or, with ``force``, an artefact."""
    if output.is_symlink():
        raise InputError(f"output {output} is a link: pass its target, or remove it")
    if not output.exists():
        return
    if not output.is_dir():
        raise InputError(f"output {output} is a file: choose a folder")
    ours = (output / MANIFEST).is_file() and read_manifest(output).keys() >= _STAMPS
    if not ours and any(output.iterdir()):
        raise InputError(f"output {output} holds files tasc did not write: choose another folder")
    if ours and not force:
        raise InputError(f"output {output} already exists: pass --force to replace it")


@contextmanager
def create(
    output: Path, step: Step, *, force: bool, seed: int | None = None, insist: bool = False
) -> Iterator[Workspace]:
    """Yield a workspace; after the body, add a manifest and rename its folder to ``output``.

    The artefact is on the disk before it gets its name. If the body fails, ``output`` does not
    change, and checkpoints in ``work`` stay for a later run of the same step. Checkpoints of
    another step are deleted; with ``insist`` they raise an error. Raises InputError if another run
    is writing there or other files are in the way, StorageError if the disk is full.
    """
    check_output(output, force=force)
    with writing(output):
        missing = [folder for folder in output.absolute().parents if not folder.exists()]
        output.parent.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            flush(folder.parent)
        with resumable(output, step.key, insist=insist) as work:
            _check_replaced(output, force=force)  # another run may have just ended
            folder = work / NEW
            started = time.time()
            folder.mkdir()
            with writing(folder):
                yield Workspace(folder, work, began(work))
                write_json(folder / MANIFEST, _describe(folder, step, started, seed))
                _share(folder, folder / MANIFEST)
                flush_below(folder)
            _check_replaced(output, force=force)  # something may have been put there meanwhile
            finished = folder.stat()
            late = None
            try:
                publish(folder, output)
            except KeyboardInterrupt as interrupt:
                if not (output.exists() and os.path.samestat(finished, output.stat())):
                    raise
                late = interrupt  # the output is complete, so no checkpoint is kept
        if late is not None:
            raise late


def _share(folder: Path, like: Path) -> None:
    """Give every file the mode of ``like``: safetensors makes files that only the owner reads."""
    mode = like.stat().st_mode
    for file in files_below(folder):
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.fchmod(handle, mode)
        finally:
            os.close(handle)


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as readable JSON with a final newline."""
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
    try:
        return sha256(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}: choose a readable file") from error
