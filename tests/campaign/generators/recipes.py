"""Recipes that were sound before a mutation or two: of their text, their keys, or their values."""

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.campaign.generators.options import NUMBERS, TEXTS
from tests.campaign.mutate import ODD, mutate_bytes, mutate_json
from tests.campaign.seeds import Seeds

Tree = dict[Any, Any]
VALUES: tuple[Any, ...] = (*ODD, b"\xff", [None], {"a": 1}, *TEXTS, *NUMBERS)
KEYS: tuple[Any, ...] = (None, True, 1, 1.5, "", "<<", "commands", "a/b", "..", "a=b", "\x1b[31m")


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[object]:
    """Write a recipe into ``sandbox`` and return the arguments that run it; without --output."""
    tree = yaml.safe_load(seeds.recipe.read_text(encoding="utf-8"))
    for _ in range(rng.choice([0, 1, 1, 2])):
        rng.choice(TREES)(rng, tree)
    tree = mutate_json(rng, tree) if rng.random() < 0.4 else tree
    try:
        text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=rng.random() < 0.5)
    except RecursionError:  # nested more than Python writes
        text = "name: " + "[" * 30_000
    if rng.random() < 0.3:
        text = rng.choice(FILES)(rng, text)
    path = sandbox / "recipe.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return ["run", path]


def _mappings(tree: Tree) -> list[Tree]:
    """Return every non-empty mapping of a tree: that is where there is something to change."""
    found = [tree] if tree else []
    for value in tree.values():
        found += _mappings(value) if isinstance(value, dict) else []
    return found


def _place(rng: random.Random, tree: Tree) -> tuple[Tree, Any]:
    mapping = rng.choice(_mappings(tree) or [{"name": ""}])
    return mapping, rng.choice(list(mapping))


def _rename(rng: random.Random, tree: Tree) -> None:
    mapping, key = _place(rng, tree)
    mapping[rng.choice([*KEYS, *TEXTS, f"{key}s"])] = mapping.pop(key)


def _set(rng: random.Random, tree: Tree) -> None:
    """Give a key a hostile value: an existing one, a possible one, or an unknown one."""
    mapping, key = _place(rng, tree)
    new = rng.choice([*KEYS, "limit", "seed", "split", "source", "methods", "device"])
    mapping[rng.choice([key, key, new])] = copy.deepcopy(rng.choice(VALUES))


def _swap(rng: random.Random, tree: Tree) -> None:
    """Put steps into another order, or a value of one position into another."""
    steps = tree.get("steps")
    if isinstance(steps, dict) and rng.random() < 0.5:
        names = rng.sample(list(steps), len(steps))
        tree["steps"] = {name: steps[name] for name in names}
        return
    (first, a), (second, b) = _place(rng, tree), _place(rng, tree)
    first[a] = copy.deepcopy(second[b])


TREES: tuple[Callable[[random.Random, Tree], None], ...]
TREES = (_set, _set, _set, _rename, _swap)
_ODD_TEXTS = ("\x1b", "\udcff", "\t", "&a", "*a", "!!python/name:os", "[", "{", ":")


def _flip(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(_ODD_TEXTS) + text[at + 1 :]


def _spoil(rng: random.Random, text: str) -> str:
    return mutate_bytes(rng, text.encode()).decode(errors="surrogateescape")


def _repeat(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    return "".join(lines[:at] + [lines[at]] * rng.choice([2, 2, 2000]) + lines[at + 1 :])


def _bomb(rng: random.Random, text: str) -> str:
    """Put aliases of aliases, or levels of levels, where the name stands."""
    fan, depth = rng.choice([(2, 40), (9, 9), (1, 30), (100, 3)])
    links = ["&l0 [x]"] + [f"&l{i + 1} [{', '.join([f'*l{i}'] * fan)}]" for i in range(depth)]
    named = rng.choice([f"[{', '.join(links)}]", "[" * rng.choice([10, 1000, 30_000])])
    return text.replace("name: small", f"name: {named}")


def _join(_rng: random.Random, text: str) -> str:
    return f"{text}---\n{text}"


FILES: tuple[Callable[[random.Random, str], str], ...] = (_spoil, _flip, _repeat, _bomb, _join)
