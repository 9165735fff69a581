"""Disturb runs: kill them, fill the disk, or run two at a time. No output may be half-written.

Afterwards the same command runs once more without a disturbance. It must leave the same files as a
run that was never disturbed, and no others.
"""

import errno
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.campaign import verdict
from tests.campaign.commands import COMMANDS
from tests.campaign.process import Ended, Faults, prepare, run, start, wait
from tests.campaign.seeds import Seeds

RESUMED = ("base", "finetune", "draft head", "bench", "bench models", "bench head")
_TIMED = {".csv", ".json", ".html"}  # files that hold times beside results
_REFUSALS = (errno.ENOSPC, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


class Undisturbed:
    """What each command does when nothing happens, found out once and kept."""

    def __init__(self, home: Path, seeds: Seeds) -> None:
        """Keep the runs below ``home``."""
        self.home, self.seeds = home, seeds
        self.ended: dict[str, Ended] = {}
        self.made: dict[str, dict[str, str]] = {}

    def __call__(self, command: str) -> tuple[Ended, dict[str, str]]:
        """Return how the command ended, and the hashes of what it made."""
        if command not in self.ended:
            sandbox = self.home / command.replace(" ", "-")
            prepare(sandbox)
            ended = run(arguments(command, self.seeds, sandbox), sandbox)
            assert ended.code == 0, f"{command} fails undisturbed: {ended.err}"
            self.ended[command], self.made[command] = ended, contents(self.output(command))
        return self.ended[command], self.made[command]

    def output(self, command: str) -> Path:
        """Return the folder that the command made."""
        return self.home / command.replace(" ", "-") / "made" / "out"


def arguments(command: str, seeds: Seeds, sandbox: Path) -> list[str]:
    """Return the arguments of one of COMMANDS that writes to ``made/out``."""
    return [*map(str, COMMANDS[command](seeds)), "--output", str(sandbox / "made" / "out")]


def contents(folder: Path) -> dict[str, str]:
    """Hash every file of an artefact whose bytes do not hold times; others are only named."""
    return {
        str(path.relative_to(folder)): ""
        if path.suffix in _TIMED and path.name not in ("tokenizer.json", "merges.json")
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def killed(undisturbed: Undisturbed, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Kill a run at a call that changes files, or at any moment; some replace an older output."""
    command = rng.choice(list(COMMANDS))
    whole, _ = undisturbed(command)
    if rng.random() < 0.7:
        faults = Faults(kill_at_call=rng.randint(1, whole.calls))
    else:
        faults = Faults(kill_after_s=rng.uniform(0, 1.1 * whole.seconds))
    return _disturbed(rng, command, undisturbed, sandbox, faults, _after_kill)


def starved(undisturbed: Undisturbed, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Let the disk be full, over quota, read-only or broken behind any number of bytes."""
    command = rng.choice(list(COMMANDS))
    whole, _ = undisturbed(command)
    room = 0 if rng.random() < 0.1 else rng.randrange(whole.bytes)
    faults = Faults(room=room, error=rng.choice(_REFUSALS))
    return _disturbed(rng, command, undisturbed, sandbox, faults, _after_refusal)


def together(undisturbed: Undisturbed, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Start a command twice at once: one makes the output, the other does so or is refused."""
    command = rng.choice(list(COMMANDS))
    undisturbed(command)
    prepare(sandbox)
    given = arguments(command, undisturbed.seeds, sandbox)
    first, second = (start(given, sandbox) for _ in range(2))
    codes = sorted(
        ended.code if ended.code is not None else -1 for ended in map(wait, (first, second))
    )
    found = [] if codes in ([0, 0], [0, 2]) else [f"exits {codes}"]
    return command, found + _same(command, undisturbed, sandbox)


def _disturbed(
    rng: Random,
    command: str,
    undisturbed: Undisturbed,
    sandbox: Path,
    faults: Faults,
    judge: Callable[[Ended, Path], list[str]],
) -> tuple[str, list[str]]:
    prepare(sandbox)
    output = sandbox / "made" / "out"
    given = [*arguments(command, undisturbed.seeds, sandbox), "--force"]
    replaces = rng.random() < 0.3
    if replaces:
        shutil.copytree(undisturbed.output(command), output)
    ended = run(given, sandbox, faults)
    found = judge(ended, sandbox)
    if replaces and not output.exists():
        found.append("lost the older output")
    resume = ["--resume"] if command in RESUMED and rng.random() < 0.5 else []
    again = run([*given, *resume], sandbox)
    if again.code != 0:
        found.append(f"then exit {again.code}: {again.err.strip()[-300:]}")
    else:
        found += _same(command, undisturbed, sandbox)
    return command, [f"{faults}: {problem}" for problem in found]


def _after_kill(ended: Ended, sandbox: Path) -> list[str]:
    if ended.hung or ended.code not in (None, 0, 2):
        return [f"exit {ended.code}: {ended.err[-200:]}"]
    return verdict.half_written(sandbox / "made" / "out")


def _after_refusal(ended: Ended, sandbox: Path) -> list[str]:
    return verdict.problems(ended, sandbox, verdict.state(sandbox / "in"))


def _same(command: str, undisturbed: Undisturbed, sandbox: Path) -> list[str]:
    output = sandbox / "made" / "out"
    found = [f"left {name}" for name in verdict.leftovers(sandbox, resumable=False)]
    found += verdict.half_written(output)
    if not found and contents(output) != undisturbed(command)[1]:
        found.append("another result")
    return found
