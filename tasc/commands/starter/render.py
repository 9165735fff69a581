"""The texts of a recipe and its task file, from their templates and values."""

from typing import Any, Literal

import yaml

from tasc.report.html import plain_template
from tasc.visible import STEERING


def rendered(name: Literal["recipe.yaml", "task.yaml"], values: dict[str, Any]) -> str:
    """Return the text of the template ``name`` with ``values``."""
    return plain_template("tasc.commands.starter", name, commented=_commented).render(values)


def as_yaml(value: object) -> str:
    """Return a value as YAML in one line."""
    plain = not STEERING.search(str(value))
    style = '"' if isinstance(value, str) and "\n" in value else None  # else YAML folds the lines
    return yaml.safe_dump(
        [value], default_flow_style=True, default_style=style, width=2**20, allow_unicode=plain
    )[1:-2]


def _commented(text: str) -> str:
    """Return the lines of a recipe's step as comments."""
    return "".join(f"  # {line[2:]}\n" for line in text.splitlines())
