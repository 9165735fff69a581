"""What a judge has told so far, from which a killed run goes on: a line of JSON each."""

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from tasc.benchmark.judge.results import Judgement
from tasc.benchmark.results.record import Record
from tasc.errors import InputError

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
        self.known: dict[Key, Judgement] = {}
        self._path = work / _NAME
        if resume and self._path.exists():
            self.known = dict(self._read(model))
        else:
            self._write(json.dumps({"model": model}), mode="w")

    def add(self, key: Key, judgement: Judgement) -> None:
        """Keep a judgement."""
        self.known[key] = judgement
        self._write(_Line(key=key, judgement=judgement).model_dump_json())

    def _write(self, line: str, mode: str = "a") -> None:
        with self._path.open(mode, encoding="utf-8") as file:
            file.write(line + "\n")

    def _read(self, model: str) -> Iterator[tuple[Key, Judgement]]:
        """Yield what whole lines hold: the last one may have been cut off, and is cut off here."""
        whole = self._path.read_bytes().rpartition(b"\n")[0]
        self._path.write_bytes(whole + b"\n")
        first, *lines = whole.split(b"\n")
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
            raise InputError(
                f"{self._path} is damaged: leave --resume out, which begins anew"
            ) from None
