"""What a judge has told so far, from which a killed run goes on: a line of JSON each."""

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from tasc.benchmark.judge.results import Judgement
from tasc.benchmark.results.record import Record
from tasc.errors import InputError
from tasc.files.journal import Journal as Lines

_NAME = "judgements.jsonl"

Key = tuple[int, int]  # number of a sample; 0 or 1: which of its orders


class _Line(Record):
    key: Key
    judgement: Judgement


class Journal:
    """A file of judgements of one model, in a folder of checkpoints."""

    def __init__(self, work: Path, model: str, *, resume: bool) -> None:
        """Begin anew, or read what is there.

        Raises InputError where that is another model's.
        """
        self._lines = Lines(work / _NAME, resume=resume)
        self.known: dict[Key, Judgement] = dict(self._read(model))
        if not self._lines.lines:
            self._lines.add(json.dumps({"model": model}))

    def add(self, key: Key, judgement: Judgement) -> None:
        """Keep a judgement."""
        self.known[key] = judgement
        self._lines.add(_Line(key=key, judgement=judgement).model_dump_json())

    def _read(self, model: str) -> Iterator[tuple[Key, Judgement]]:
        if not self._lines.lines:
            return
        first, *lines = self._lines.lines
        try:
            held = json.loads(first)["model"]
            if held != model:
                raise InputError(
                    f"the run before asked {held}, and this one would ask {model}: name that with "
                    "--model, or leave --resume out"
                )
            for line in lines:
                found = _Line.model_validate_json(line)
                yield found.key, found.judgement
        except (ValueError, LookupError, TypeError, ValidationError):
            raise InputError(self._lines.damaged) from None
