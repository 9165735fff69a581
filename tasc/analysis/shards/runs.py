"""Shards counted by hand, on whatever machines, and merged: each is an artefact of its own."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from tasc.analysis.counted import Counted
from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.shards.files import load_counted, save_counted
from tasc.data.stream import Stream, shard
from tasc.errors import InputError
from tasc.report.record import Report
from tasc.tokenizer.loaded import LoadedTokenizer

FILE = "run.json"


class ShardReport(Report):
    """One counted shard: the data and options it was counted with, and its size."""

    model_config = ConfigDict(extra="allow")  # the data's columns and template, by field

    shard: tuple[int, int]
    content: str
    samples: int
    dropped: int
    tokens: int


@dataclass(frozen=True, eq=False)
class ShardRun:
    """One shard, counted: its data and options, and the counts."""

    facts: dict[str, Any]
    counted: Counted

    def save(self, folder: Path) -> None:
        """Write the counts; their runs move there."""
        save_counted(self.counted, folder)

    @property
    def report(self) -> ShardReport:
        """The shard's data and options, and its size."""
        own = self.counted
        tokens = own.input.tokens + own.output.tokens
        counts = {"samples": own.samples, "dropped": own.dropped, "tokens": tokens}
        return ShardReport.model_validate(self.facts | counts)


def facts(
    options: AnalyzeOptions, part: Stream, tokenizer: LoadedTokenizer | None
) -> dict[str, Any]:
    """Return what a shard is of, but for its number: all that changes its counts."""
    data = options.source.model_dump(exclude={"path"})
    identity = tokenizer and hashlib.sha256(tokenizer.tokenizer.to_str().encode()).hexdigest()
    return {
        **data,
        "split": part.split,
        "limit": options.limit,
        "seed": options.seed if options.limit else None,
        "tokenizer": identity,
    }


def read_runs(
    options: AnalyzeOptions, stream: Stream, tokenizer: LoadedTokenizer | None
) -> list[Counted]:
    """Return the shards that ``options.merge`` names, in order.

    Raises:
        InputError: they are not the shards of this very input with these options, each once.
        IntegrityError: a file is damaged.
    """
    found: dict[int, Path] = {}
    of = 0
    for folder in _folders(options.merge):
        run = _read(folder)
        _check_options(folder, run, facts(options, stream, tokenizer))
        number, total = run["shard"]
        if of and total != of:
            raise InputError(
                f"{folder} is shard {number}/{total}, the runs before it are of {of}: "
                f"name runs of one number of shards with --merge"
            )
        if number in found:
            raise InputError(
                f"shard {number}/{total} is there twice, in {found[number]} and {folder}: "
                "name one of them with --merge"
            )
        of, found[number] = total, folder
        if run["content"] != shard(stream, number, total).fingerprint:
            raise InputError(
                f"{folder} was counted on other data than {stream.source.path} now holds: "
                f"run tasc analyze --shard {number}/{total} again"
            )
    missing = [f"{number}/{of}" for number in range(1, of + 1) if number not in found]
    if missing:
        shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if missing[8:] else "")
        raise InputError(
            f"no run of shard {shown}: run tasc analyze --shard {missing[0]}, "
            "and name its folder with --merge"
        )
    return [load_counted(found[number]) for number in range(1, of + 1)]


def _folders(named: Sequence[str]) -> list[Path]:
    """Return the runs that are named, by themselves or by the folder that holds them."""
    result = []
    for folder in map(Path, named):
        inside = sorted(path.parent for path in folder.glob(f"*/{FILE}"))
        result += [folder] if (folder / FILE).is_file() or not inside else inside
    return result


def _read(folder: Path) -> dict[str, Any]:
    try:
        run: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        number, of = run["shard"]
        if type(number) is not int or type(of) is not int or not 1 <= number <= of:
            raise ValueError(f"shard {number}/{of}")
        run["content"]  # must be there
    except OSError:
        raise InputError(
            f"{folder} holds no {FILE}: name folders that tasc analyze --shard wrote"
        ) from None
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise InputError(
            f"{folder / FILE} is damaged ({error}): run tasc analyze --shard again"
        ) from None
    return run


def _check_options(folder: Path, run: dict[str, Any], own: dict[str, Any]) -> None:
    for name, value in own.items():
        seen = run.get(name)
        if seen == value:
            continue
        if name == "tokenizer":
            raise InputError(
                f"{folder} was counted with {'another' if seen else 'no'} tokenizer"
                f"{'' if value else ', and none is named here'}: give --merge the --tokenizer of "
                "its shards"
            )
        raise InputError(
            f"{folder} was counted with {name} {seen!r}, here it is {value!r}: give --merge the "
            f"--{name.replace('_', '-')} of its shards"
        )
