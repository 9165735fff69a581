"""Damaged files: an artefact of ours is copied, one file of it harmed, and a command reads it."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasc.decoding.drafters.ngram.index import FILE, HEADER
from tests.campaign.mutate import positions

if TYPE_CHECKING:
    from tests.campaign.seeds import Seeds

BORDERS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 53, 1 << 63, (1 << 64) - 1)
ODD: tuple[Any, ...] = (None, -1, 0, 1 << 70, 1e999, "", "x", [], {}, [[]], True, "\ud800", "../..")


def build(rng: random.Random, seeds: "Seeds", sandbox: Path) -> list[str]:
    """Damage a copy of an artefact in ``sandbox``; return a command that reads it."""
    kind = rng.choice(("index", "index", "head", "augmented"))
    folder = sandbox / kind
    shutil.copytree(getattr(seeds, kind), folder)
    damage(rng, rng.choice(sorted(p for p in folder.rglob("*") if p.is_file())))
    return _command(kind, folder, seeds)


def _command(kind: str, folder: Path, seeds: "Seeds") -> list[str]:
    if kind == "augmented":
        few = ["--limit", "8", "--epochs", "0.1"]
        return [
            "finetune",
            f"{seeds.task}",
            "--model",
            f"{seeds.base}",
            "--augmented",
            f"{folder}",
            *few,
        ]
    short = ["--split", "train", "--limit", "3", "--max-new-tokens", "8"]
    with_it = ["--method", "tasc-spec", "--index", f"{folder}"]
    if kind == "head":
        with_it = ["--method", "eagle", "--draft-head", f"{folder}"]
    return ["bench", f"{seeds.task}", "--model", f"{seeds.base}", *short, *with_it]


def damage(rng: random.Random, path: Path) -> None:
    """Harm a file as disks, hands and strangers do."""
    ways: list[Callable[[random.Random, Path], None]] = [_cut, _flip, _grow, _empty, _lose, _fill]
    if path.name == FILE:
        ways += [_field, _forge, _forge, _forge]
    if path.suffix == ".json":
        ways += [_replace, _replace, _replace, _drop]
    if path.suffix == ".safetensors":
        ways += [_header, _header]
    rng.choice(ways)(rng, path)


def _cut(rng: random.Random, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def _flip(rng: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def _grow(rng: random.Random, path: Path) -> None:
    with path.open("ab") as file:
        file.write(rng.randbytes(rng.choice((1, 8, 4096))))


def _empty(rng: random.Random, path: Path) -> None:
    path.write_bytes(bytes(rng.choice((0, 1, path.stat().st_size))))


def _fill(rng: random.Random, path: Path) -> None:
    path.write_bytes(rng.randbytes(path.stat().st_size))


def _lose(rng: random.Random, path: Path) -> None:
    path.unlink()
    if rng.random() < 0.5:
        path.mkdir()


def _field(rng: random.Random, path: Path) -> None:
    """Change four bytes of the head: magic, version, size, hash."""
    content = bytearray(path.read_bytes())
    at = rng.randrange(0, HEADER.size, 4)
    content[at : at + 4] = (rng.choice(BORDERS) & 0xFFFFFFFF).to_bytes(4, "little")
    path.write_bytes(content)


def _forge(rng: random.Random, path: Path) -> None:
    """Change words of the block."""
    content = bytearray(path.read_bytes())
    words = (len(content) - HEADER.size) // 8
    for _ in range(rng.randint(1, 4)):
        at = HEADER.size + 8 * rng.randrange(rng.choice((8, words)))
        old = int.from_bytes(content[at : at + 8], "little")
        new = rng.choice((rng.choice(BORDERS), old ^ 1 << rng.randrange(64), old + 1, old - 1))
        content[at : at + 8] = (new % (1 << 64)).to_bytes(8, "little")
    path.write_bytes(content)


def _replace(rng: random.Random, path: Path) -> None:
    """Put an odd value in place of one of the JSON's, or of all of it."""
    whole = {"": json.loads(path.read_text(encoding="utf-8"))}
    holder, key = rng.choice(positions(whole))
    holder[key] = rng.choice(ODD)
    path.write_text(json.dumps(whole[""]))


def _drop(rng: random.Random, path: Path) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    spots = positions(value)
    if spots:
        holder, key = rng.choice(spots)
        del holder[key]
    path.write_text(json.dumps(value))


def _header(rng: random.Random, path: Path) -> None:
    """Change the length, or a byte, of what stands before a safetensors file's numbers."""
    content = bytearray(path.read_bytes())
    length = int.from_bytes(content[:8], "little")
    if rng.random() < 0.3:
        content[:8] = rng.choice((*BORDERS, length + 8, length - 1)).to_bytes(8, "little")
    else:
        content[8 + rng.randrange(length)] = rng.choice(b'0179{}[],:"-e')
    path.write_bytes(content)
