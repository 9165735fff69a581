"""What a campaign tries: each kind of case, by name, and how large its part is."""

import importlib
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.campaign import checkpoints, faults, oracles, servers, verdict
from tests.campaign.commands import Undisturbed
from tests.campaign.process import prepare, run
from tests.campaign.seeds import Seeds

HOSTILE = (
    *("chats", "data", "dialects", "exports", "files", "models", "options", "recipes", "templates"),
    "tokenizers",
)
DISTURBED = {"killed": 3, "starved": 3, "together": 1, "stopped": 3}  # two runs or more in a case
# Parts of a campaign's runs.
ORACLES = (
    *(oracles.lossless, oracles.formats, oracles.documents, oracles.tables),
    *(checkpoints.settings, checkpoints.heads),
)
PARTS = {**dict.fromkeys(HOSTILE, 4), **DISTURBED, "load": 2, "judge": 1}
PARTS |= {oracle.__name__: 1 for oracle in ORACLES}
Case = Callable[[Random, Path], tuple[str, list[str]]]


def cases(seeds: Seeds, home: Path) -> dict[str, Case]:
    """Return every kind of case; each is called with its random numbers and an empty sandbox."""
    undisturbed = Undisturbed(seeds, home)
    found: dict[str, Case] = {name: partial(_hostile, name, seeds) for name in HOSTILE}
    found |= {name: partial(getattr(faults, name), undisturbed) for name in DISTURBED}
    found |= {"load": partial(servers.load, seeds), "judge": partial(servers.judge, seeds)}
    for oracle in ORACLES:
        found[oracle.__name__] = partial(oracles.play, oracle)
    for i, case in enumerate(oracles.sampled()):
        found[f"sampling-{i}"] = partial(oracles.play, partial(oracles.sampling, case))
    return found


def play(kind: str, seed: int, case: Case, sandbox: Path, keep: Path) -> dict[str, Any]:
    """Run one case, and say what was wrong with it; the sandbox of one that fails is kept."""
    command, problems = case(Random(f"{kind}:{seed}"), sandbox)
    if problems:
        kept = keep / f"{kind}-{seed}"
        shutil.copytree(sandbox, kept, symlinks=True, dirs_exist_ok=True, ignore=_special)
    shutil.rmtree(sandbox, ignore_errors=True)
    return {"kind": kind, "seed": seed, "command": command, "problems": problems}


def _special(folder: str, names: list[str]) -> set[str]:
    """Leave out what cannot be copied: fifos, sockets, devices."""
    paths = {name: Path(folder) / name for name in names}
    return {n for n, p in paths.items() if not (p.is_symlink() or p.is_file() or p.is_dir())}


def _hostile(name: str, seeds: Seeds, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    generator = importlib.import_module(f"tests.campaign.generators.{name}")
    prepare(sandbox)
    given = list(map(str, generator.build(rng, seeds, sandbox / "in")))
    given += ["--output", str(sandbox / "made" / "out")]
    before = verdict.state(sandbox / "in")
    ended = run(given, sandbox)
    found = verdict.problems(ended, sandbox, before)
    if name == "exports":
        found += generator.check(sandbox / "made" / "out")
    if found:
        (sandbox / "arguments.json").write_text(json.dumps(given))
    return " ".join(given), found
