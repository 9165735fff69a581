"""How a benchmark says what it found: JSON, with how it was called and on what machine."""

import argparse
import json
from pathlib import Path
from typing import Any

from tasc.environment import command_line, environment


def add_json(parser: argparse.ArgumentParser) -> None:
    """Let the figures be written to a file."""
    parser.add_argument("--json", type=Path, help="write the figures here, too")


def publish(figures: dict[str, Any], file: Path | None, *, quiet: bool = False) -> None:
    """Print ``figures`` unless ``quiet``, and write them where the user asked."""
    known = {"command": command_line(), "environment": environment()}
    text = json.dumps(known | figures, indent=2)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    if not quiet:
        print(text)  # noqa: T201 - a script
