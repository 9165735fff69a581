"""Reading a YAML file that anybody may have written: bounded before anything is made of it."""

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from tasc.errors import RecipeError

LARGEST_FILE = 100_000  # bytes
MOST_NODES = 10_000  # keys and values, each alias counted as often as it is used
DEEPEST = 20


def read_yaml(path: Path) -> tuple[Any, list[str]]:
    """Return what a file holds, and the keys that a mapping of it has twice: the last one counts.

    Raises:
        RecipeError: the file is no YAML, too large, too deep, or aliases make it so.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise RecipeError(f"{path} is larger than {LARGEST_FILE:,} bytes: name a recipe")
        text = content.decode()
        _check_size(path, text)
        node = yaml.compose(text, yaml.SafeLoader)
        return yaml.safe_load(text), _repeated(node)
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: dates and long numbers
        why = " ".join(str(error).split())
        raise RecipeError(f"{path} is not a readable YAML file: {why}: mend it") from None


def _check_size(path: Path, text: str) -> None:
    """Count a document's nodes as aliases would unfold them, from its events alone."""
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = [(None, 0)]  # anchors of what is open, nodes within
    for event in yaml.parse(text, yaml.SafeLoader):
        anchor, size = getattr(event, "anchor", None), 0
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((anchor, 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_.pop()
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise RecipeError(
                    f"{path}: *{event.anchor} stands before what it is: move it below"
                )
            anchor, size = None, sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
        if anchor and size:
            sizes[anchor] = size
        open_[-1] = open_[-1][0], open_[-1][1] + size
        if len(open_) > DEEPEST or open_[-1][1] > MOST_NODES:
            raise RecipeError(
                f"{path} has more than {DEEPEST} levels or, with aliases unfolded, more than "
                f"{MOST_NODES:,} keys and values: write a smaller recipe"
            )


def _repeated(node: yaml.Node | None) -> list[str]:
    """Keys that a mapping of a YAML document has twice: loading would keep the last one only."""
    waiting, seen, found = [node], set[int](), list[str]()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
            continue
        seen.add(id(node))
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        names = Counter(key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode))
        found += [str(name) for name, count in names.items() if count > 1]
        waiting += [part for pair in pairs for part in pair] or node.value
    return found
