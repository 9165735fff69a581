"""Reading YAML files of unknown origin, with limits on their size."""

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from tasc.errors import RecipeError

LARGEST_FILE = 100_000  # bytes
MOST_NODES = 10_000  # keys and values, with aliases unfolded
DEEPEST = 20


def read_yaml(path: Path) -> tuple[Any, list[str]]:
    """Return a file's contents, and the keys that a mapping repeats: the last value wins.

    Raises RecipeError if the file is not YAML, or larger or deeper than the limits above.
    """
    repeated: list[str] = []
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise RecipeError(f"{path} is larger than {LARGEST_FILE:,} bytes: choose a smaller one")
        _check_size(yaml.compose(content, _Loader), {}, repeated)
        return yaml.safe_load(content), repeated
    except RecursionError:
        raise RecipeError(
            f"{path} has more than {DEEPEST} levels, or more than {MOST_NODES:,} keys and values "
            "with aliases unfolded: write a smaller file"
        ) from None
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: dates and long numbers
        reason = " ".join(str(error).split())
        raise RecipeError(f"{path} is not a readable YAML file: {reason}: fix the file") from None


class _Loader(yaml.SafeLoader):
    """Raises RecursionError beyond DEEPEST levels."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401
        self._depth += 1
        if self._depth > DEEPEST:
            raise RecursionError
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _check_size(node: yaml.Node | None, sizes: dict[int, int], repeated: list[str]) -> int:
    """Return the nodes below ``node`` and itself, and collect the keys that a mapping repeats.

    Aliases share a node, whose size is added for each. Raises RecursionError beyond MOST_NODES, or
    if an alias is part of its own anchor.
    """
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in sizes:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        names = Counter(key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode))
        repeated += [str(name) for name, count in names.items() if count > 1]
        parts = [part for pair in pairs for part in pair] or node.value
        size = 1 + sum(_check_size(part, sizes, repeated) for part in parts)
        if size > MOST_NODES:
            raise RecursionError
        sizes[id(node)] = size
    return sizes[id(node)]
