"""Self-describing artefact folders: whole or absent, with a manifest of what made them.

A command writes into a temporary sibling, which takes the output's name in one rename at the end.
A process killed at any moment therefore leaves either the old folder or the new one.
"""

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasc import __version__
from tasc.environment import environment
from tasc.errors import InputError, IntegrityError
from tasc.folders import locked, publish, share, sweep

MANIFEST = "manifest.json"


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
        raise InputError(f"{folder} has no {MANIFEST}: it is not a folder that tasc wrote")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{path} is damaged ({error}): delete {folder}, run again") from error
    return manifest


def fingerprint(path: Path) -> str:
    """Hash a file or folder; an artefact is known by what its manifest says it holds."""
    if (path / MANIFEST).is_file():
        return str(read_manifest(path).get("content", ""))
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
    if Path.cwd().is_relative_to(output.resolve()):
        raise InputError(f"output {output} is the folder you are in, or above: name one below it")
    if output.exists():
        if not output.is_dir():
            raise InputError(f"output {output} is a file: name a folder with --output")
        ours = (output / MANIFEST).is_file()
        if not ours and any(output.iterdir()):
            raise InputError(f"output {output} holds files tasc did not write: name another folder")
        if ours and not force:
            raise InputError(f"output {output} already exists: pass --force to replace it")
    try:
        nearest = next(folder for folder in output.absolute().parents if folder.exists())
        probe = nearest / f".{output.name}.probe-{os.getpid()}"
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise InputError(f"output {output} cannot be written: {error.strerror}") from error


@contextmanager
def create(
    output: Path, step: Step, *, force: bool, seed: int | None = None
) -> Iterator[Workspace]:
    """Write an artefact: yields a workspace, then stamps it and moves it to ``output``.

    When the body fails, ``output`` is as it was; ``work`` is kept only if the body put files there,
    and only for a later run of the same step. Raises InputError while another run writes there.
    """
    check_output(output, force=force)
    output.parent.mkdir(parents=True, exist_ok=True)
    folder = output.parent / f".{output.name}.new-{os.getpid()}"
    work = work_of(output)
    with locked(work, output):
        sweep(output)
        _prepare_work(work, step)
        folder.mkdir()
        started = time.time()
        try:
            yield Workspace(folder, work)
            manifest = _describe(folder, step, started, seed)
            write_json(folder / MANIFEST, manifest)
            share(folder, folder / MANIFEST)
            publish(folder, output)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            if [p.name for p in work.glob("*")] == ["key"]:
                shutil.rmtree(work, ignore_errors=True)
            raise
        shutil.rmtree(work)


def work_of(output: Path) -> Path:
    """Return where a run into ``output`` keeps checkpoints, which outlive it if it is ended."""
    return output.parent / f".{output.name}.work"


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as readable JSON that ends in a newline."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _describe(folder: Path, step: Step, started: float, seed: int | None) -> dict[str, Any]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    contents = {str(p.relative_to(folder)): _hash_file(p) for p in files}
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


def _prepare_work(work: Path, step: Step) -> None:
    """Keep a killed run's checkpoints only for the very same step."""
    key = work / "key"
    if not key.is_file() or key.read_text() != step.key:
        for left in work.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    key.write_text(step.key)


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
