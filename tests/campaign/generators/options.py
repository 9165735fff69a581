"""Commands whose numbers, paths, choices and texts are hostile, read from what commands declare."""

import random
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tasc_cli._typed import typed
from tasc_cli.main import app
from typer.main import get_command

from tasc.commands.registry import STEPS, step_options
from tasc.decoding.drafters import DRAFTERS
from tasc.serving.table import EXPORTS

if TYPE_CHECKING:
    from tests.campaign.seeds import Seeds

TEXTS = (
    *("", " ", "\t", ".", "..", "/", "~", "~nobody-here", "-", "--", "=", "a=", "=a"),
    *(
        "\x1b[31mred\x1b[0m",
        "\r\x07",
        "\u202eabc",
        "日本語 שלום 👩\u200d💻",
        "x" * 300,
        "/dev/null",
    ),
    *("/proc/self/mem", "builtin:", "builtin:none", "{", "{}", "{input", "{input.__class__}"),
    *("{input:9999999999}", "{{}}", "%s%n", "$(true)", "null", "nan", "true"),
)
NUMBERS = (
    *("0", "-0", "-1", "1", "2", "3", "007", "1_0", " 1", "1.5", "1e-300", "1e300", "1e308"),
    *("1e999", "inf", "-inf", "nan", "0x10", "²", "٣", "", "9" * 23, "-" + "9" * 23, "9" * 5000),
    *(str(2**31), str(2**32), str(2**63), str(2**64), "true"),
)
SHORT = {  # keeps every run to a second or two, unless a hostile value is put there
    "limit": "12",
    "epochs": "0.1",
    "minutes": "0.02",
    "preset": "pico",
    "vocabulary": "300",
    "budget": "5",
    "batch_size": "2",
    "effective_batch": "2",
    "max_length": "64",
    "max_new_tokens": "8",
    "block": "32",
    "warmup": "0",
    "prompts": "2",
    "positions": "2",
    "threads": "1",
    "split": "train",
}
LONG = {"jobs", "repeats", "epochs", "minutes"}  # a large value that is allowed takes its time
SLOW = {"compile", "grid", "processes", "quantize"}
HEADS = ("eagle", "fr-spec", "microspec")


def build(rng: random.Random, seeds: "Seeds", sandbox: Path) -> list[str]:
    """Return a command's arguments, of which up to four are hostile; without --output."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    command = rng.choice(sorted(STEPS))
    known = {p.name: p for p in commands[command].params}
    given = _ordinary(rng, command, seeds)
    given |= {name: value for name, value in SHORT.items() if name in known and name not in given}
    for name in rng.sample(sorted(set(known) - {"output", "help"} - SLOW), rng.randint(0, 4)):
        value = _hostile(rng, command, known[name], sandbox)
        if value is not None:
            given[name] = value
    return _spelled(command, known, given)


def _ordinary(rng: random.Random, command: str, seeds: "Seeds") -> dict[str, str]:
    """Return what a command needs to run at all, and some of what it may be given."""
    base, tokenizer = str(seeds.base), str(seeds.tokenizer)
    task = str(rng.choice([seeds.task, seeds.folder]))
    match command:
        case "augment" | "index" | "tune":
            return {"source": task, "tokenizer": tokenizer}
        case "vocab":
            return {"target": base, "draft": rng.choice([base, tokenizer]), "data": task}
        case "finetune":
            head = {"draft_head": ""}
            tokens = {"augmented": str(seeds.augmented)}
            return {"source": task, "model": base} | rng.choice([{}, tokens, head])
        case "bench":
            return _bench(rng, seeds, task)
        case "load":  # nobody answers there
            return {"source": task, "endpoint": "http://127.0.0.1:9", "warmup": "1"}
        case "export":
            return {"model": base, "to": rng.choice(sorted(EXPORTS)), "index": str(seeds.index)}
        case _:
            return {"source": task} | ({"tokenizer": tokenizer} if command == "analyze" else {})


def _bench(rng: random.Random, seeds: "Seeds", task: str) -> dict[str, str]:
    given = {"source": task, "model": str(seeds.base), "method": _method(rng)}
    if given["method"].partition(":")[0] in HEADS:
        given["draft_head"] = str(seeds.head)
    if rng.random() < 0.2:
        given["index"] = str(seeds.index)
    if rng.random() < 0.3:
        given["temperature"] = rng.choice(["1", "1e-30", "1e30", "0.7"])
    return given


def _method(rng: random.Random) -> str:
    """Spell a method, most of them with a hostile value of one of its own options."""
    name = rng.choice(sorted(DRAFTERS))
    options = [field.name.rstrip("_") for field in fields(DRAFTERS[name].options)]
    chosen = rng.sample([*options, "budget"], rng.randint(0, min(2, len(options))))
    return name + ":" * bool(chosen) + ",".join(f"{key}={rng.choice(NUMBERS)}" for key in chosen)


def _hostile(rng: random.Random, command: str, parameter: Any, sandbox: Path) -> str | None:
    """Return a hostile value of the kind that an option takes; None leaves it out."""
    name, annotation = parameter.name, parameter.type_descriptor.annotation
    if annotation is bool:
        return rng.choice([None, ""])
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


def _spelled(command: str, known: dict[str, Any], given: dict[str, str]) -> list[str]:
    """Write values as a shell would pass them: arguments in order, then options."""
    arguments = [p.name for p in known.values() if p.param_type_name == "argument"]
    words = [command, *(given[name] for name in arguments if name in given)]
    for name, value in given.items():
        if name not in known or name in arguments:
            continue
        flag = known[name].type_descriptor.annotation is bool
        words += [known[name].opts[0]] if flag else [f"{known[name].opts[0]}={value}"]
    return words
