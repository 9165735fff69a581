"""Damaged files: an artefact of ours is copied, one file of it harmed, and a command reads it."""

import random
import shutil
from pathlib import Path

from tasc.decoding.drafters.ngram.index import FILE, HEADER
from tests.campaign.mutate import BORDERS, damage
from tests.campaign.seeds import Seeds


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[object]:
    """Damage a copy of an artefact in ``sandbox``; return a command that reads it."""
    kind = rng.choice(("index", "index", "head", "augmented"))
    folder = sandbox / kind
    shutil.copytree(getattr(seeds, kind), folder)
    path = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file()))
    if path.name == FILE and rng.random() < 0.5:
        _forge(rng, path)
    else:
        damage(rng, path)
    return _command(rng, kind, folder, seeds)


def _command(rng: random.Random, kind: str, folder: Path, seeds: Seeds) -> list[object]:
    with_model = [seeds.task, "--model", seeds.base]
    if kind == "augmented":
        few = ["--limit", "8", "--epochs", "0.1"]
        return ["finetune", *with_model, "--augmented", folder, *few]
    short = ["--split", "train", "--limit", "3", "--max-new-tokens", "8"]
    method, option = "tasc-spec", "--index"
    if kind == "head":
        method, option = rng.choice(("eagle", "fr-spec:size=16", "microspec")), "--draft-head"
    return ["bench", *with_model, *short, "--method", method, option, folder]


def _forge(rng: random.Random, path: Path) -> None:
    """Change words of an index: four bytes of its head (magic, version, size, hash), or more."""
    content = bytearray(path.read_bytes())
    words = (len(content) - HEADER.size) // 8
    for _ in range(rng.randint(1, 4)):
        at, size = HEADER.size + 8 * rng.randrange(rng.choice((8, words))), 8
        if rng.random() < 0.25:
            at, size = rng.randrange(0, HEADER.size, 4), 4
        old = int.from_bytes(content[at : at + size], "little")
        new = rng.choice((rng.choice(BORDERS), old ^ 1 << rng.randrange(64), old + 1, old - 1))
        content[at : at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")
    path.write_bytes(content)
