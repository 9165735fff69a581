"""What is expected of every run, whatever it was given."""

import hashlib
import json
import re
from pathlib import Path

from tests.campaign.process import Ended

# An error line ends in what to do: one of its last clauses begins with one of these.
_ACTIONS = re.compile(
    r"(add|ask|break|call|check|choose|convert|copy|correct|create|cut|decode|delete|double|download|drop|"
    r"encode|export|fetch|fill|fix|"
    r"free|get|give|go|install|join|keep|leave|lower|make|mend|move|name|pass|project|push|put|quote|"
    r"raise|read|rebuild|reinstall|remove|rename|repair|repeat|replace|return|run|save|say|see|set|"
    r"shorten|split|take|tell|train|try|type|unpack|unset|use|wait|write)\b"
)
MEMORY = 256 << 20  # bytes that data from elsewhere may take
_CHOICE = re.compile(r",? (?:or|and|then|first),? ")
_QUOTED = re.compile(r"\{[^{}]*\}|(?<!\w)'[^']*'|\"[^\"]*\"|`[^`]*`")
# What a recipe prints before the step that fails, and a command on columns that it recognised.
_SAID = r"(done|up to date) \(|read as [\w ]+ \(|skipped (examples|answers) with|marks of rows are "
_STEP = re.compile(f".+: ({_SAID})")
_PROGRESS = re.compile(r"(?!error: ).*, \d+ s")  # a line now and then while it works
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")


def problems(ended: Ended, sandbox: Path, before: str) -> list[str]:
    """Return what is wrong with how a run ended; ``before`` is the state its inputs had."""
    found = _ending(ended)
    if state(sandbox / "in") != before:
        found.append("changed input")
    if ended.stray:
        found.append(f"stray file: {ended.stray}")
    found += [f"left {name}" for name in leftovers(sandbox, resumable=ended.code != 0)]
    found += half_written(sandbox / "made" / "out")
    return found


def _ending(ended: Ended) -> list[str]:
    if ended.hung:
        return ["hang"]
    if ended.signal:
        return [f"crash: signal {ended.signal}"]
    found = []
    if "Traceback (most recent call last)" in ended.err or "panicked at" in ended.err:
        found.append("traceback")
    if ended.code not in (0, 2):
        found.append(f"exit {ended.code}")
    if _CONTROL.search(ended.out + ended.err):
        found.append("control characters")
    if ended.code == 2:
        found += _refusal(ended)
    return found


def _refusal(ended: Ended) -> list[str]:
    said = [line for line in ended.err.splitlines() if line.strip()]
    lines = [line for line in said if not _PROGRESS.fullmatch(line)]
    steps = [line for line in lines if _STEP.match(line)]
    found = []
    if ended.out and not steps:
        found.append("stdout of a refusal")
    if len(lines) != len(steps) + 1 or not lines[-1].startswith("error: "):
        found.append(f"not one line: {ended.err[-400:]!r}")
    elif not ends_in_an_order(lines[-1]):
        found.append(f"no action: {lines[-1]}")
    return found


def ends_in_an_order(line: str) -> bool:
    """Say whether an error's line, after its last colon or semicolon, is an order.

    What is quoted, in braces, or inside of a word ends no part of a line.
    """
    last = re.split(r"[;:] ", _QUOTED.sub("X", line.strip()))[-1]
    return any(_ACTIONS.match(choice) for choice in _CHOICE.split(last))


def leftovers(sandbox: Path, *, resumable: bool) -> list[str]:
    """Name what a run left outside of its output; a checkpoint may stay for one that goes on."""
    made = [path.name for path in (sandbox / "made").iterdir() if path.name != "out"]
    if resumable and made == [".out.work"]:
        made = made if len(list((sandbox / "made/.out.work").iterdir())) < 2 else []
    away = [path.name for name in ("cwd", "tmp") for path in (sandbox / name).iterdir()]
    return sorted(made + away)


def half_written(output: Path) -> list[str]:
    """Say what is wrong with an output: it is absent, a whole artefact, or a recipe's folder."""
    if not output.exists():
        return []
    if not (output / "manifest.json").is_file():  # a recipe: steps and nothing beside them
        steps = [path for path in output.iterdir() if not path.name.startswith(".")]
        whole = all((step / "manifest.json").is_file() and not half_written(step) for step in steps)
        return [] if whole else ["half-written"]
    try:
        files = json.loads((output / "manifest.json").read_text(encoding="utf-8"))["files"]
        whole = all(
            hashlib.sha256((output / p).read_bytes()).hexdigest() == files[p] for p in files
        )
    except (OSError, ValueError, KeyError) as error:
        return [f"half-written: {error}"]
    return [] if whole else ["half-written"]


def state(folder: Path) -> str:
    """Hash names, kinds, and contents of regular files below ``folder``; links are not followed."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        stated = f"{path.relative_to(folder)}\0{path.lstat().st_mode}\0"
        digest.update(stated.encode("utf-8", "surrogateescape"))
        if path.is_file() and not path.is_symlink():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
