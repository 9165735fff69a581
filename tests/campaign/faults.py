"""Disturb runs: kill or stop them, fill the disk, or run two at once. No output is half-written.

Afterwards the same command runs once more without a disturbance. It must leave the same files as a
run that was never disturbed, and no others.
"""

import errno
import json
import re
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.campaign import verdict
from tests.campaign.commands import COMMANDS, Undisturbed, contents, differing
from tests.campaign.process import Ended, Faults, prepare, run, start, wait

RESUMED = ("base", "finetune", "draft head", "bench", "bench models", "bench head")
_REFUSALS = (errno.ENOSPC, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_SAID = re.compile(r"^interrupted: .*?(?:resume with (?P<line>tasc .*)|run again)$", re.M)


def killed(undisturbed: Undisturbed, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Kill a run at a call that changes files, or at any moment; some replace an older output."""
    command = rng.choice(list(COMMANDS))
    whole = undisturbed(command).ended
    if rng.random() < 0.7:
        faults = Faults(kill_at_call=rng.randint(1, whole.calls))
    else:
        faults = Faults(kill_after_s=rng.uniform(0, 1.1 * whole.seconds))
    return _disturbed(rng, command, undisturbed, sandbox, faults, _after_kill)


def starved(undisturbed: Undisturbed, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Let the disk be full, over quota, read-only or broken behind any number of bytes."""
    command = rng.choice(list(COMMANDS))
    room = 0 if rng.random() < 0.1 else rng.randrange(undisturbed(command).ended.bytes)
    faults = Faults(room=room, error=rng.choice(_REFUSALS))
    return _disturbed(rng, command, undisturbed, sandbox, faults, _after_refusal)


def together(undisturbed: Undisturbed, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Start a command twice at once: one makes the output, the other does so or is refused."""
    command = rng.choice(list(COMMANDS))
    prepare(sandbox)
    given = undisturbed.arguments(command, sandbox)
    codes = [wait(started).code for started in [start(given, sandbox) for _ in range(2)]]
    found = [] if codes in ([0, 0], [0, 2], [2, 0]) else [f"exits {codes}"]
    return command, found + _same(command, undisturbed, sandbox)


def stopped(undisturbed: Undisturbed, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Stop a run with SIGTERM once or twice: the printed command resumes to the same results."""
    command = rng.choice(list(COMMANDS))
    whole = undisturbed(command)
    prepare(sandbox)
    line, found, turns = undisturbed.arguments(command, sandbox), list[str](), 0
    undisturbed.steps[0] = 0
    made, stops = sandbox / "made" / "out", rng.choice((1, 1, 2))
    for _ in range(stops):
        after = rng.uniform(0, whole.ended.seconds)
        ended = run(line, sandbox, Faults(kill_after_s=after, signal=signal.SIGTERM))
        if ended.code == 0 or found or (made / "manifest.json").exists():
            break
        said, found = _after_stop(ended, sandbox)
        line, turns = said or line, max(turns, _turns(sandbox))
    if not (made / "manifest.json").exists():
        ended = run(line, sandbox)
        if ended.code:
            return command, [*found, f"then exit {ended.code}: {ended.err[-300:]}"]
    found += _same(command, undisturbed, sandbox)
    results = made / "results.json"
    if command.startswith("bench") and not found:
        turns -= json.loads(results.read_text())["resumed_turns"]
        found += [f"{turns} turns were measured again"] if turns else []
    again = undisturbed.steps[0] - whole.steps
    if command in ("finetune", "run") and again > 2 * stops:  # a checkpoint every two steps
        found.append(f"{again} steps of the training were done again")
    return command, found


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
    given = [*undisturbed.arguments(command, sandbox), "--force"]
    replaces = rng.random() < 0.3
    if replaces:
        shutil.copytree(undisturbed(command).output, output)
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


def _after_stop(ended: Ended, sandbox: Path) -> tuple[list[str], list[str]]:
    """Return the arguments that a stopped command prints, and what is wrong with its end."""
    said = _SAID.findall(ended.err)
    found = verdict.half_written(sandbox / "made" / "out")
    if (ended.code, ended.hung, len(said)) not in ((130, False, 1), (None, False, 0)):
        found.append(f"exit {ended.code}, signal {ended.signal}: {ended.err[-300:]}")
    left = [str(path) for path in (sandbox / "made").rglob("*") if path.is_file()]
    complete = (sandbox / "made/out/manifest.json").exists()  # stopped just before its end
    if ended.code and bool(said and said[0]) != bool(left) and not complete:
        found.append(f"does not report the files {left[:3]}: {ended.err[-300:]}")
    return shlex.split(said[0])[1:] if said and said[0] else [], found


def _turns(sandbox: Path) -> int:
    file = sandbox / "made/.out.work/generations.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def _same(command: str, undisturbed: Undisturbed, sandbox: Path) -> list[str]:
    output, expected = sandbox / "made" / "out", undisturbed(command).made
    found = [f"left {name}" for name in verdict.leftovers(sandbox, resumable=False)]
    found += verdict.half_written(output)
    different = differing(contents(output), expected)
    return found or [f"another result: {name}" for name in different]
