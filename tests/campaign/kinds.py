"""What a campaign tries: each kind of case, by name, and how large its part is."""

import importlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

from tests.campaign import faults, oracles, servers, verdict
from tests.campaign.process import prepare, run
from tests.campaign.seeds import Seeds
from tests.campaign.stops import Stops

HOSTILE = (
    *("data", "exports", "files", "models", "options", "recipes", "templates", "tokenizers"),
)
Case = Callable[[Random, Path], tuple[str, list[str]]]


@dataclass(frozen=True)
class Outcome:
    """One case: what was run, and what was wrong with how it went."""

    kind: str
    seed: int
    command: str
    problems: list[str]

    def to_json(self) -> str:
        """Return a line of a log."""
        return json.dumps(asdict(self))


# Parts of a campaign's runs; a case of the faults is two runs or more.
PARTS = {
    **dict.fromkeys(HOSTILE, 6),
    "killed": 5,
    "starved": 5,
    "together": 1,
    "stopped": 3,
    "load": 3,
    "judge": 2,
    "round_trips": 1,
    "lossless": 2,
}


def cases(seeds: Seeds, home: Path) -> dict[str, Case]:
    """Return every kind of case; each is called with its random numbers and an empty sandbox."""
    undisturbed = faults.Undisturbed(home / "undisturbed", seeds)
    found: dict[str, Case] = {name: _hostile(name, seeds) for name in HOSTILE}
    for name in ("killed", "starved", "together"):
        found[name] = partial(getattr(faults, name), undisturbed)
    found["stopped"] = Stops(seeds, home / "stopped").case
    for name in ("load", "judge"):
        found[name] = partial(getattr(servers, name), seeds)
    for name, oracle in oracles.ORACLES.items():
        found[name] = partial(oracles.play, oracle)
    for i, pair in enumerate(oracles.sampled()):
        found[f"sampling-{i}"] = partial(oracles.play, partial(oracles.sampling, case=pair))
    return found


def play(kind: str, seed: int, case: Case, sandbox: Path, keep: Path) -> Outcome:
    """Run one case; the sandbox of one that fails is kept."""
    command, problems = case(Random(f"{kind}:{seed}"), sandbox)
    if problems:
        shutil.copytree(
            sandbox, keep / f"{kind}-{seed}", symlinks=True, dirs_exist_ok=True, ignore=_special
        )
    shutil.rmtree(sandbox, ignore_errors=True)
    return Outcome(kind, seed, command, problems)


def _special(folder: str, names: list[str]) -> set[str]:
    """Leave out what cannot be copied: fifos, sockets, devices."""
    paths = {name: Path(folder) / name for name in names}
    return {n for n, p in paths.items() if not (p.is_symlink() or p.is_file() or p.is_dir())}


def _hostile(name: str, seeds: Seeds) -> Case:
    module = importlib.import_module(f"tests.campaign.generators.{name}")
    check = getattr(module, "check", lambda output: [])

    def case(rng: Random, sandbox: Path) -> tuple[str, list[str]]:
        prepare(sandbox)
        given = list(map(str, module.build(rng, seeds, sandbox / "in")))
        if "--output" not in given:
            given += ["--output", str(sandbox / "made" / "out")]
        before = verdict.state(sandbox / "in")
        ended = run(given, sandbox)
        found = verdict.problems(ended, sandbox, before) + check(sandbox / "made" / "out")
        if found:
            (sandbox / "arguments.json").write_text(json.dumps(given))
        return " ".join(given), found

    return case
