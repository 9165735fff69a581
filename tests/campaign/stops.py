"""Stop commands with SIGTERM at random times: the printed command resumes to the same results.

python -m tests.campaign.stops --stops 20 [--commands bench run]
"""

import argparse
import hashlib
import json
import mmap
import re
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tasc.training.loop import Run
from tests.benchmark.test_spread import without_times
from tests.campaign import verdict
from tests.campaign.process import Ended, Faults, preload, prepare, run
from tests.campaign.seeds import Seeds, make

METHODS = ("--method", "ar", "--method", "tasc-spec:budget=12", "--batch-size", "1")
COMMANDS: dict[str, Callable[[Seeds], Sequence[object]]] = {
    "bench": lambda s: (
        *("bench", s.task, "--model", s.base, "--split", "train", "--repeats", "3", *METHODS),
        *("--max-new-tokens", "16", "--seed", "1"),
    ),
    "finetune": lambda s: (
        *("finetune", s.task, "--model", s.base, "--epochs", "4", "--batch-size", "2"),
        *("--effective-batch", "2", "--checkpoint-steps", "2"),
    ),
    "tune": lambda s: ("tune", s.folder, "--tokenizer", s.tokenizer, "--split", "validation"),
    "index": lambda s: ("index", s.task, "--tokenizer", s.tokenizer),
    "analyze": lambda s: ("analyze", s.folder, "--tokenizer", s.tokenizer, "--grid"),
    "run": lambda s: ("run", s.recipe),
}
_SAID = re.compile(r"^interrupted: .*?(?:resume with (?P<line>tasc .*)|run again)$", re.M)
_TOLD = ("cells", "cuts", "chosen", "steps")  # parts of a report that do not depend on the time


class Stops:
    """Commands, what each makes undisturbed, and what stops of it showed."""

    def __init__(self, seeds: Seeds, home: Path) -> None:
        """Keep the undisturbed runs below ``home``."""
        self.seeds, self.home = seeds, home
        self.whole: dict[str, tuple[float, int, dict[str, str]]] = {}
        home.mkdir(exist_ok=True, parents=True)
        self.steps = _count_steps()

    def case(self, rng: Random, sandbox: Path, command: str = "") -> tuple[str, list[str]]:
        """Stop a command once or more, then let it end; return it and what is wrong."""
        command = command or rng.choice(list(COMMANDS))
        seconds, steps, expected = self.undisturbed(command)
        prepare(sandbox)
        line, found, done = self.line(command, sandbox), list[str](), 0
        self.steps[0] = 0
        stops = rng.choice((1, 1, 2))
        for _ in range(stops):
            after = rng.uniform(0, seconds)
            ended = run(line, sandbox, Faults(kill_after_s=after, signal=signal.SIGTERM))
            if ended.code == 0 or found or (sandbox / "made/out/manifest.json").exists():
                break
            said, problems = _stopped(ended, sandbox)
            line, found, done = said or line, problems, max(done, _done(sandbox))
        if not (sandbox / "made/out/manifest.json").exists():
            ended = run(line, sandbox)
            if ended.code:
                found.append(f"then exit {ended.code}: {ended.err[-300:]}")
        found += [f"left {name}" for name in verdict.leftovers(sandbox, resumable=False)]
        made = _made(sandbox / "made/out")
        different = sorted(n for n in made.keys() | expected if made.get(n) != expected.get(n))
        found += [f"another result: {different}"] if different else []
        if not found and command == "bench":
            again = (
                done - json.loads((sandbox / "made/out/results.json").read_text())["resumed_turns"]
            )
            found += [f"{again} turns were measured again"] if again else []
        again = self.steps[0] - steps
        if again > 2 * stops:  # there is a checkpoint after every second step
            found.append(f"{again} steps of the training were done again")
        return command, found

    def undisturbed(self, command: str) -> tuple[float, int, dict[str, str]]:
        """Return the seconds and training steps of a whole run, and what it made."""
        if command not in self.whole:
            sandbox = self.home / command
            prepare(sandbox)
            self.steps[0] = 0
            ended = run(self.line(command, sandbox), sandbox)
            assert ended.code == 0, ended.err
            steps = self.steps[0]
            self.whole[command] = ended.seconds, steps, _made(sandbox / "made/out")
        return self.whole[command]

    def line(self, command: str, sandbox: Path) -> list[str]:
        """Return the arguments of a command that writes to ``made/out``."""
        return [*map(str, COMMANDS[command](self.seeds)), "--output", str(sandbox / "made/out")]


def _stopped(ended: Ended, sandbox: Path) -> tuple[list[str], list[str]]:
    """Return the arguments that a stopped command prints, and what is wrong with its end."""
    said = _SAID.findall(ended.err)
    found = verdict.half_written(sandbox / "made/out")
    if (ended.code, ended.hung, len(said)) not in ((130, False, 1), (None, False, 0)):
        found.append(f"exit {ended.code}, signal {ended.signal}: {ended.err[-300:]}")
    left = [str(path) for path in (sandbox / "made").rglob("*") if path.is_file()]
    complete = (sandbox / "made/out/manifest.json").exists()  # stopped just before its end
    if ended.code and bool(said and said[0]) != bool(left) and not complete:
        found.append(
            f"does not report the files in the output folder, {left[:3]}: {ended.err[-300:]}"
        )
    return shlex.split(said[0])[1:] if said and said[0] else [], found


def _count_steps() -> memoryview:
    """Return a number, shared with all processes, to which each step of a training adds one."""
    whole, counter = Run._step, memoryview(mmap.mmap(-1, 8)).cast("q")

    def counted(self: Run, step: int) -> float:
        counter[0] += 1
        return whole(self, step)

    Run._step = counted
    return counter


def _done(sandbox: Path) -> int:
    """Count the turns that a stopped bench kept."""
    file = sandbox / "made/.out.work/generations.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def _made(output: Path) -> dict[str, str]:
    """Return the contents of each file that do not depend on the time."""
    found = {}
    for path in (path for path in output.rglob("*") if path.is_file()):
        name, text = str(path.relative_to(output)), ""
        if path.suffix == ".json" and path.name != "manifest.json":
            told = json.loads(path.read_text())
            text = json.dumps(without_times({k: told[k] for k in _TOLD if k in told} or told))
        elif path.suffix not in (".json", ".html", ".csv"):
            text = hashlib.sha256(path.read_bytes()).hexdigest()
        found[name] = text
    return found


def main() -> int:
    """Stop each command and print what came out; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS))
    parser.add_argument("--seeds", type=Path, help="good inputs that a campaign made")
    given = parser.parse_args()
    preload()
    home, wrong = Path(tempfile.mkdtemp(prefix="stops-")), 0
    stops = Stops(Seeds.at(given.seeds) if given.seeds else make(home / "seeds"), home)
    for command in given.commands:
        for number in range(given.stops):
            sandbox = home / "sandbox"
            _, found = stops.case(Random(f"{command} {number}"), sandbox, command)
            shutil.rmtree(sandbox)
            wrong += bool(found)
            sys.stdout.writelines(f"{command} {number}: {one}\n" for one in found)
        sys.stdout.write(f"{command}: {given.stops} stops; {wrong} failures so far\n")
        sys.stdout.flush()
    shutil.rmtree(home)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
