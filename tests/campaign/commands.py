"""Commands on good input, small enough to be run by the hundred, and what each makes."""

import hashlib
import json
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasc.training.loop import Run
from tests.benchmark.test_spread import without_times
from tests.campaign.process import Ended, prepare, run
from tests.campaign.seeds import Seeds

SHORT = ("--epochs", "1", "--limit", "12")
PROOF = ("--split", "train", "--limit", "2", "--max-new-tokens", "8", "--warmup", "0")
# Drafts of a fixed size, because adaptive sizes depend on the time
METHODS = ("--method", "ar", "--method", "tasc-spec:budget=12")
COMMANDS: dict[str, Callable[[Seeds], Sequence[object]]] = {
    "analyze": lambda s: ("analyze", s.folder, "--tokenizer", s.tokenizer),
    "analyze --grid": lambda s: ("analyze", s.folder, "--tokenizer", s.tokenizer, "--grid"),
    "augment": lambda s: ("augment", s.folder, "--tokenizer", s.tokenizer, "--budget", "5"),
    "augment added": lambda s: (
        *("augment", s.task, "--tokenizer", s.tokenizer, "--budget", "auto", "--export", "added"),
    ),
    "index": lambda s: ("index", s.task, "--tokenizer", s.tokenizer),
    "base": lambda s: ("base", s.task, "--preset", "pico", "--vocabulary", "300", *SHORT),
    "finetune": lambda s: (
        *("finetune", s.task, "--model", s.base, "--epochs", "4", "--batch-size", "2"),
        *("--effective-batch", "2", "--checkpoint-steps", "2"),
    ),
    "finetune tokens": lambda s: (
        *("finetune", s.folder, "--model", s.base, "--augmented", s.augmented, "--merge", *SHORT),
    ),
    "draft head": lambda s: (
        *("finetune", s.task, "--model", s.base, "--draft-head", "--max-new-tokens", "8", *SHORT),
    ),
    "bench": lambda s: (
        *("bench", s.task, "--model", s.base, "--split", "train", "--repeats", "3", *METHODS),
        *("--max-new-tokens", "16", "--seed", "1", "--batch-size", "1", "--index", s.index),
    ),
    "bench models": lambda s: (
        *("bench", s.task, "--model", s.base, "--model", s.finetuned, "--repeats", "2"),
        *(*METHODS, *PROOF),
    ),
    "bench head": lambda s: (
        *("bench", s.task, "--model", s.base, "--draft-head", s.head, "--method", "eagle", *PROOF),
    ),
    "tune": lambda s: (*("tune", s.folder, "--tokenizer", s.tokenizer, "--split", "validation"),),
    "vocab": lambda s: (*("vocab", s.base, s.base, "--data", s.task, "--prompts", "2"),),
    "run": lambda s: ("run", s.recipe),
}
_PREDICTED = ("trim", "drafting", "structured", "serving", "verdict")  # parts of an analysis
_LASTING = ("cells", "cuts", "chosen", "steps")  # parts of a report that do not depend on the time


@dataclass(frozen=True)
class Whole:
    """An undisturbed run: how it ended, its training steps, and what it made."""

    ended: Ended
    steps: int
    made: dict[str, str]
    output: Path


class Undisturbed:
    """What each command does when nothing happens, found out once and kept."""

    def __init__(self, seeds: Seeds, home: Path) -> None:
        self.seeds, self.home = seeds, home
        self.steps = _count_steps()
        self.runs: dict[str, Whole] = {}

    def __call__(self, command: str) -> Whole:
        if command not in self.runs:
            sandbox = self.home / command.replace(" ", "-")
            prepare(sandbox)
            self.steps[0] = 0
            ended = run(self.arguments(command, sandbox), sandbox)
            assert ended.code == 0, f"{command} fails undisturbed: {ended.err}"
            output = sandbox / "made" / "out"
            self.runs[command] = Whole(ended, self.steps[0], contents(output), output)
        return self.runs[command]

    def arguments(self, command: str, sandbox: Path) -> list[str]:
        return [*map(str, COMMANDS[command](self.seeds)), "--output", str(sandbox / "made" / "out")]


def contents(folder: Path) -> dict[str, str]:
    """Return what does not depend on the time of each file below ``folder``."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): _lasting(path) for path in files}


def differing(made: dict[str, str], expected: dict[str, str]) -> list[str]:
    """Name the files whose contents differ, or that only one of two runs made."""
    names = made.keys() | expected.keys()
    return sorted(name for name in names if made.get(name) != expected.get(name))


def _lasting(path: Path) -> str:
    if path.suffix in (".csv", ".html") or path.name == "manifest.json":
        return ""
    if path.suffix == ".json" and path.name not in ("tokenizer.json", "merges.json"):
        told: dict[str, Any] = json.loads(path.read_text())
        if (told.get("drafting") or {}).get("cost"):  # predictions depend on the measured cost
            told = {k: v for k, v in told.items() if k not in _PREDICTED}
        return json.dumps(without_times({k: told[k] for k in _LASTING if k in told} or told))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _count_steps() -> memoryview:
    """Return a number, shared with all processes, to which each step of a training adds one."""
    whole, counter = Run._step, memoryview(mmap.mmap(-1, 8)).cast("q")

    def counted(self: Run, step: int) -> float:
        counter[0] += 1
        return whole(self, step)

    Run._step = counted
    return counter
