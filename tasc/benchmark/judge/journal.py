"""What a judge has told so far, from which a killed run goes on: a line of JSON each."""

from pathlib import Path

from tasc.benchmark.judge.results import Judgement
from tasc.benchmark.results.record import Record
from tasc.errors import InputError
from tasc.files.journal import Journal as Lines

Key = tuple[int, int]  # number of a sample; 0 or 1: which of its orders


class _Line(Record):
    model: str
    key: Key
    judgement: Judgement


class Journal:
    """A file of judgements of one model, in a folder of checkpoints."""

    def __init__(self, work: Path, model: str, *, resume: bool) -> None:
        """Begin anew, or read what is there.

        Raises InputError where that is damaged, or another model's.
        """
        self._model, self._lines = model, Lines(work / "judgements.jsonl", _Line, resume=resume)
        for line in self._lines.lines:
            if line.model != model:
                raise InputError(
                    f"the run before asked {line.model}, and this one would ask {model}: name that "
                    "with --model, or leave --resume out"
                )
        self.known = {line.key: line.judgement for line in self._lines.lines}

    def add(self, key: Key, judgement: Judgement) -> None:
        """Keep a judgement."""
        self.known[key] = judgement
        self._lines.add(_Line(model=self._model, key=key, judgement=judgement))
