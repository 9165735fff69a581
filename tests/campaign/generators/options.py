"""Commands whose numbers, paths, choices and texts are hostile, read from what commands declare."""

import random
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from tasc_cli._typed import typed
from tasc_cli.main import app
from typer.main import get_command

from tasc.commands.registry import step_options
from tasc.decoding.drafters import DRAFTERS
from tasc.serving.table import EXPORTS
from tests.campaign.commands import COMMANDS
from tests.campaign.seeds import Seeds

TEXTS = (
    *("", " ", "\t", ".", "..", "/", "~", "~nobody-here", "-", "--", "=", "a=", "=a"),
    *("\x1b[31mred\x1b[0m", "\r\x07", "\u202eabc", "日本語 שלום 👩\u200d💻", "x" * 300),
    *("/dev/null", "/proc/self/mem", "builtin:", "builtin:none", "{", "{}", "{input"),
    *("{input.__class__}", "{input:9999999999}", "{{}}", "%s%n", "$(true)", "null", "nan", "true"),
)
NUMBERS = (
    *("0", "-0", "-1", "1", "2", "3", "007", "1_0", " 1", "1.5", "1e-300", "1e300", "1e308"),
    *("1e999", "inf", "-inf", "nan", "0x10", "²", "٣", "", "9" * 23, "-" + "9" * 23, "9" * 5000),
    *(str(2**31), str(2**32), str(2**63), str(2**64), "true"),
)
LONG = {"jobs", "repeats", "epochs", "minutes"}  # a large value that is allowed takes its time
SLOW = {"compile", "grid", "processes", "quantize"}


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[str]:
    """Return a good command to which up to four hostile options are added."""
    good = [make(seeds) for name, make in COMMANDS.items() if name not in ("analyze --grid", "run")]
    good.append(("load", seeds.task, "--endpoint", "http://127.0.0.1:9"))  # nobody answers there
    good.append(("export", seeds.base, "--to", rng.choice(sorted(EXPORTS)), "--index", seeds.index))
    given = list(map(str, rng.choice(good)))
    parameters = get_command(app).commands[given[0]].params  # type: ignore[attr-defined]
    arguments = [p.name for p in parameters if p.param_type_name == "argument"]
    known = [p for p in parameters if p.name not in {"output", "help"} | SLOW]
    for parameter in rng.sample(known, rng.randint(0, 4)):
        value = _hostile(rng, given[0], parameter, sandbox)
        if parameter.name in arguments:
            given[1 + arguments.index(parameter.name)] = value
        elif parameter.type_descriptor.annotation is bool:
            given.append(parameter.opts[0])
        else:
            given.append(f"{parameter.opts[0]}={value}")
    return given


def _method(rng: random.Random) -> str:
    """Spell a method, most of them with a hostile value of one of its own options."""
    name = rng.choice(sorted(DRAFTERS))
    options = [field.name.rstrip("_") for field in fields(DRAFTERS[name].options)]
    chosen = rng.sample([*options, "budget"], rng.randint(0, min(2, len(options))))
    return name + ":" * bool(chosen) + ",".join(f"{key}={rng.choice(NUMBERS)}" for key in chosen)


def _hostile(rng: random.Random, command: str, parameter: Any, sandbox: Path) -> str:
    name, annotation = parameter.name, parameter.type_descriptor.annotation
    if name == "method":
        return _method(rng)
    if _holds(annotation, int, float) or name == "budget":
        numbers = [n for n in NUMBERS if name not in LONG or n in ("0", "-1", "nan", "9" * 23)]
        return rng.choice(numbers)
    choices = [
        c for field in typed(step_options(command)) if field.name == name for c in field.choices
    ]
    paths = [str(sandbox), str(sandbox / "missing"), str(sandbox / ("n" * 300))]
    return rng.choice([*choices, *(c.upper() for c in choices), *TEXTS, *paths])


def _holds(annotation: Any, *kinds: type) -> bool:
    return annotation in kinds or any(_holds(part, *kinds) for part in get_args(annotation))
