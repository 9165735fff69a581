"""README.md of an export: what is there, the command that starts the engine, and its limits."""

import shlex

from tasc.report.markdown import block
from tasc.serving.parts import Format, Start
from tasc.serving.table import EXPORTS


def readme(engine: str, start: Start, format: Format) -> str:
    """Return the Markdown. Commands stand in blocks of their own and run inside the folder."""
    entry = EXPORTS[engine]
    command = format.command(start)
    parts = [f"# {start.name}, for {entry.label}"]
    if start.drafts:
        parts.append("Output is what the model writes without drafts, token for token.")
    parts += ["## Install", _install(entry.install)]
    if command:
        parts += ["## Start", "In this folder, or with `tasc serve .`:"]
        parts += [block("sh", _wrapped(command))]
        parts += ["It listens on this machine alone; `--host 0.0.0.0` lets others in."]
    notes = [entry.limits, *format.notes()]
    if "--dtype" in command:
        notes.append("it computes in float32, as the model was saved; without `--dtype` it rounds")
    parts += ["## Use", format.example(start), "## Limits"]
    parts += ["\n".join(f"- {note.removesuffix('.')}." for note in notes)]
    return "\n\n".join(parts) + "\n"


def _install(told: str) -> str:
    """Return a command as a block, and what no command does as a sentence."""
    return block("sh", told) if told.startswith("pip ") else f"{told[0].upper()}{told[1:]}."


def _wrapped(words: list[str]) -> str:
    """Return a command for a shell, an option a line."""
    lines = [""]
    for word in map(shlex.quote, words):
        if word.startswith("--") and lines[-1]:
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n".join(lines)
