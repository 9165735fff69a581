"""Tables of commands, their options, and the included recipes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo
from tasc_cli.main import app
from typer.main import get_command

from docs.generate import markdown
from tasc.commands.registry import STEPS, step_options
from tasc.commands.steps import find, names

COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


GUIDE = Path(__file__).parents[1] / "guide"
SHARED_PAGES = {"load": "tasc-serve.md"}  # else other-commands.md, if a command has no page


def page(name: str) -> str:
    """Return where the guide describes a command: a page of its own, or a heading of another."""
    own = f"tasc-{name}.md"
    if (GUIDE / own).is_file():
        return own
    return f"{SHARED_PAGES.get(name, 'other-commands.md')}#tasc-{name}"


def overview(_block: str) -> str:
    """Return a table of all commands, with links to the guide."""
    return markdown.table(
        ["command", "what it does"],
        [
            [
                f"[`tasc {name}`](root:docs/guide/{page(name)})",
                (command.help or "").partition("\n\n")[0],
            ]
            for name, command in COMMANDS.items()
        ],
    )


def options(_block: str) -> str:
    """Return the options of all commands: those that most share, then each command's own."""
    shared = _shared()
    first = [flag for flag in COMMANDS["analyze"].params if flag.name in shared]
    parts = ["## Shared options", _table([_flag_line(flag) for flag in first])]
    return "\n\n".join([*parts, *(_command(name, shared) for name in COMMANDS)])


def _shared() -> set[str]:
    """Return the names of flags that most commands have with the same help."""
    helps = Counter((flag.name, flag.help) for c in COMMANDS.values() for flag in c.params)
    return {name for (name, _), times in helps.items() if times > len(COMMANDS) // 2}


def _command(name: str, shared: set[str]) -> str:
    typed, kind = COMMANDS[name], step_options(name) if name in STEPS else None
    flags = {flag.name: flag for flag in typed.params}
    lines, used = [], set()
    for field, info in kind.model_fields.items() if kind else ():
        flag = flags.get(_flag_of(field, list(flags)))
        used.add(flag.name if flag else "")
        if field not in shared and field != "source":
            lines.append(_line(field, info, flag))
    lines += [_flag_line(p) for key, p in flags.items() if key not in used | shared]
    also = "[Shared options](#shared-options)." if shared & set(flags) else ""
    table = _table(lines) if lines else ""
    return "\n\n".join(filter(None, [f"## tasc {name}", typed.help or "", table, also]))


def _table(lines: list[list[str]]) -> str:
    return markdown.fields(["option", "value", "default", "effect"], lines)


def _flag_of(field: str, flags: list[str]) -> str:
    """Return the name that a field has on the command line, which repeats a singular."""
    begins = [flag for flag in flags if field.startswith(flag)]
    return field if field in flags else max(begins, key=len, default="")


def _line(field: str, info: FieldInfo, flag: Any) -> list[str]:  # noqa: ANN401
    described = info.description or (flag.help if flag else "") or ""
    shown = getattr(flag, "show_default", None)
    option = [_written(flag)] if flag else []
    if not flag or flag.name != field:
        option.append(f"in a recipe {markdown.code(field)}")
    return [
        "<br>".join(option),
        ", ".join([_kind(info.annotation), *_bounds(info)]),
        shown if isinstance(shown, str) else _default(info),
        described,
    ]


def _flag_line(flag: Any) -> list[str]:  # noqa: ANN401
    shown, value = getattr(flag, "show_default", None), flag.default
    default = shown if isinstance(shown, str) else _shown(value)
    return [
        _written(flag),
        _kind(flag.type_descriptor.annotation),
        "required" if flag.required else default,
        flag.help or "",
    ]


def _written(flag: Any) -> str:  # noqa: ANN401
    named = flag.param_type_name == "option"
    return markdown.code(flag.opts[0] if named else flag.name.upper())


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    return _shown(info.default)


def _shown(value: object) -> str:
    """Return a default as it is typed; nothing for a switch that is off and for what is absent."""
    if value is None or value is False:
        return ""
    if isinstance(value, tuple):
        return ", ".join(map(markdown.code, value))
    return markdown.code("on" if value is True else value)


def _kind(annotation: Any) -> str:  # noqa: ANN401
    """Say in a word or two what values an option takes."""
    if annotation in markdown.VALUES:
        return markdown.VALUES[annotation]
    parts = [part for part in get_args(annotation) if part not in (NoneType, ...)]
    if get_origin(annotation) is Literal:
        return ", ".join(map(markdown.code, parts))
    if get_origin(annotation) in (tuple, list):
        return f"{_kind(parts[0])}, repeatable"
    if hasattr(annotation, "__metadata__"):
        return _kind(annotation.__origin__)
    return " or ".join(map(_kind, parts))


_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def _bounds(info: FieldInfo) -> Iterator[str]:
    inner = [part for part in get_args(info.annotation) if hasattr(part, "__metadata__")]
    declared = [*info.metadata, *(m for part in inner for m in part.__metadata__)]
    for limit in [m for d in declared for m in (getattr(d, "metadata", None) or [d])]:
        for name, sign in _SIGNS.items():
            value = getattr(limit, name, None)
            if value is not None:
                yield f"{sign} {value:,}"


def recipes(_block: str) -> str:
    """Return a table of the recipes, from their first lines of comment and their steps."""
    return markdown.table(
        ["recipe", "what it does", "takes", "steps"],
        [_recipe(name) for name in names()],
    )


def _recipe(name: str) -> list[str]:
    text = find(name).read_text()
    held = yaml.safe_load(text)
    comment = " ".join(line[1:] for line in text.partition("\nname:")[0].splitlines())
    takes = " ".join(comment.partition("Takes:")[2].partition("Run:")[0].split())
    steps = ", ".join(markdown.code(step) for step in held["steps"])
    return [
        markdown.code(name),
        held["description"],
        takes.partition(". ")[0].rstrip("."),
        steps,
    ]
