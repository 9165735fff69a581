"""Recipes that were sound before a mutation or two: of their text, their keys, or their values."""

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.campaign.generators.options import NUMBERS, TEXTS

if TYPE_CHECKING:
    from tests.campaign.seeds import Seeds

Tree = dict[Any, Any]
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    10**30,
    1e308,
    float("inf"),
    float("nan"),
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    b"\xff",
    *TEXTS,
    *NUMBERS,
)
KEYS: tuple[Any, ...] = (None, True, 1, 1.5, "", "<<", "commands", "a/b", "..", "a=b", "\x1b[31m")


def build(rng: random.Random, seeds: "Seeds", sandbox: Path) -> list[str]:
    """Write a recipe into ``sandbox`` and return the arguments that run it; without --output."""
    tree = _sound(rng, seeds)
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        rng.choice(TREES)(rng, tree)
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=rng.random() < 0.5)
    if rng.random() < 0.3:
        text = rng.choice(FILES)(rng, text)
    path = sandbox / "recipe.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return ["run", str(path)]


def _sound(rng: random.Random, seeds: "Seeds") -> Tree:
    """Return a short recipe: analyze, augment and finetune; or a base model and a bench."""
    few = {"threads": 1, "limit": 12}
    short = few | {"epochs": 0.5, "batch_size": 4, "effective_batch": 4, "max_length": 64}
    tuning = {
        "analysis": {"command": "analyze", "tokenizer": str(seeds.tokenizer), "budgets": [0, 5]},
        "tokens": {"command": "augment", "tokenizer": str(seeds.base), "budget": 3},
        "tuned": {"command": "finetune", "model": str(seeds.base), "augmented": "tokens"}
        | short
        | {"merge": True},
    }
    training = {
        "base": {"command": "base", "preset": "pico", "vocabulary": 300, "block": 32, "epochs": 0.2}
        | few,
        "bench": {"command": "bench", "models": ["small=base"], "methods": ["ar", "tasc-spec"]}
        | few
        | {"split": "train", "max_new_tokens": 4, "warmup": 0},
    }
    return {
        "name": "campaign",
        "description": "a mutation of this is run",
        "data": {"path": str(rng.choice([seeds.task, seeds.folder]))},
        "seed": 3,
        "steps": copy.deepcopy(rng.choice([tuning, training])),
    }


def _mappings(tree: Tree) -> list[Tree]:
    """Return every non-empty mapping of a tree: that is where there is something to change."""
    found = [tree] if tree else []
    for value in tree.values():
        found += _mappings(value) if isinstance(value, dict) else []
    return found


def _place(rng: random.Random, tree: Tree) -> tuple[Tree, Any]:
    mapping = rng.choice(_mappings(tree) or [{"name": ""}])
    return mapping, rng.choice(list(mapping))


def _set_value(rng: random.Random, tree: Tree) -> None:
    mapping, key = _place(rng, tree)
    mapping[key] = copy.deepcopy(rng.choice(VALUES))


def _drop(rng: random.Random, tree: Tree) -> None:
    mapping, key = _place(rng, tree)
    del mapping[key]


def _rename(rng: random.Random, tree: Tree) -> None:
    mapping, key = _place(rng, tree)
    mapping[rng.choice([*KEYS, *TEXTS, f"{key}s"])] = mapping.pop(key)


def _add(rng: random.Random, tree: Tree) -> None:
    mapping, _ = _place(rng, tree)
    mapping[rng.choice([*KEYS, "limit", "seed", "split", "source", "methods", "device"])] = (
        copy.deepcopy(rng.choice(VALUES))
    )


def _misspell(rng: random.Random, tree: Tree) -> None:
    """Take a letter out of a text, as a step's or a method's name."""
    mapping, key = _place(rng, tree)
    value = mapping[key]
    if isinstance(value, list) and value:
        mapping[key] = [*value[:-1], str(value[-1])[:-1]]
    elif isinstance(value, str) and value:
        at = rng.randrange(len(value))
        mapping[key] = value[:at] + value[at + 1 :]


def _swap(rng: random.Random, tree: Tree) -> None:
    """Put steps into another order, or a value of one position into another."""
    steps = tree.get("steps")
    if isinstance(steps, dict) and rng.random() < 0.5:
        names = rng.sample(list(steps), len(steps))
        tree["steps"] = {name: steps[name] for name in names}
        return
    (first, a), (second, b) = _place(rng, tree), _place(rng, tree)
    first[a] = copy.deepcopy(second[b])


TREES: tuple[Callable[[random.Random, Tree], None], ...] = (
    _set_value,
    _set_value,
    _drop,
    _rename,
    _add,
    _misspell,
    _swap,
)


def _cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text))]


ODD = ("\x00", "\x1b", "\udcff", "\t", "&a", "*a", "!!python/name:os", "[", "{", ":", "\n")


def _flip(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    odd = rng.choice(
        ["\x00", "\x1b", "\udcff", "\t", "&a", "*a", "!!python/name:os", "[", "{", ":"]
    )
    return text[:at] + odd + text[at + 1 :]


def _repeat(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    return "".join(lines[:at] + [lines[at]] * rng.choice([2, 2, 2000]) + lines[at + 1 :])


def _bomb(rng: random.Random, text: str) -> str:
    """Put aliases of aliases, or levels of levels, where the name stands."""
    fan, depth = rng.choice([(2, 40), (9, 9), (1, 30), (100, 3)])
    links = ["&l0 [x]"] + [f"&l{i + 1} [{', '.join([f'*l{i}'] * fan)}]" for i in range(depth)]
    named = rng.choice([f"[{', '.join(links)}]", "[" * rng.choice([10, 1000, 30_000])])
    return text.replace("name: campaign", f"name: {named}")


def _join(_rng: random.Random, text: str) -> str:
    return f"{text}---\n{text}"


FILES: tuple[Callable[[random.Random, str], str], ...] = (_cut, _flip, _repeat, _bomb, _join)
