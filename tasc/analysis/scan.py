"""One pass over a split: words, tokens, repetitions, and samples for predictions.

Memory grows only with the distinct words and by eight bytes per distinct output: n-grams go to
sorted runs in a temporary folder.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from tasc.analysis.count import BATCH, Part, Submit, pool
from tasc.analysis.counted import Counted, CountedSide, Scan, describe_all
from tasc.analysis.sample import RowSample, Sample
from tasc.backend import WordCounter
from tasc.data.stream import Stream, refuse_empty
from tasc.files.scratch import scratch
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer

WINDOW = 16_000_000  # characters of distinct texts that are collected before they are counted


def scan(
    stream: Stream,
    tokenizer: LoadedTokenizer | None = None,
    *,
    n_max: int = 4,
    progress: Progress = silent,
) -> Scan:
    """Read a split once and describe it.

    Args:
        stream: the split.
        tokenizer: of the model; without one, only words are counted.
        n_max: longest n-gram; statistics end at 4.
        progress: receives the number of examples read, and the progress of the merge.

    Raises:
        InputError: an example is malformed, the split is empty, or the temporary folder cannot be
            written.
        StorageError: no space is left.
    """
    with scratch() as folder:
        found = count_rows(stream, tokenizer, folder, progress)
        return merge([found], stream, tokenizer, n_max=n_max, progress=progress)


def merge(
    parts: Sequence[Counted],
    stream: Stream,
    tokenizer: LoadedTokenizer | None,
    *,
    n_max: int = 4,
    progress: Progress = silent,
) -> Scan:
    """Describe a split by its counted parts, in order; the arguments are those of ``scan``."""
    refuse_empty(stream, sum(p.samples for p in parts), sum(p.dropped for p in parts))
    size = len(tokenizer.vocabulary()) if tokenizer else 0
    progress("merge counts", 0, 2)
    with scratch() as folder:
        found = describe_all(parts, size, n_max, folder)
    progress("merge counts", 2, 2)
    return found


def count_rows(
    stream: Stream,
    tokenizer: LoadedTokenizer | None,
    folder: Path,
    progress: Progress = silent,
) -> Counted:
    """Count a split, or a part of it; the runs stay in ``folder``."""
    with pool(tokenizer) if tokenizer else nullcontext() as counting:
        inputs, outputs = (_Reading(folder / name, counting) for name in ("input", "output"))
        sample, some = Sample(), RowSample()
        samples = dropped = 0
        for rows in stream.rows():
            samples, dropped = samples + len(rows.outputs), dropped + rows.dropped
            inputs.add(rows.inputs, rows.input_words)
            sample.add(outputs.add(rows.outputs, rows.output_words))
            some.add(rows)
            progress("read", samples, 0)
        inputs.flush()
        sample.add(outputs.flush())
        sides = inputs.finish(), outputs.finish()
    return Counted(samples, dropped, *sides, sample.finish(), sample.distinct, some.kept)


@dataclass
class _Reading:
    """The inputs or the outputs while they are read."""

    prefix: Path
    count: Submit | None
    words: WordCounter = field(init=False)
    total: int = 0
    window: dict[str, int] = field(default_factory=dict)
    characters: int = 0  # in the window
    calls: list[Future[Part]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words = WordCounter(self.prefix.with_suffix(".words"))

    def add(self, texts: Sequence[str], listed: Sequence[Sequence[str]] | None) -> dict[str, int]:
        """Add texts; return the texts and counts of the window once it is full, else nothing."""
        if listed is None:
            self.total += self.words.add_texts(texts)
        else:
            self.total += sum(self.words.add_words(words) for words in listed)
        for text in texts:
            seen = self.window.get(text, 0)
            self.window[text] = seen + 1
            self.characters += 0 if seen else len(text)
        return self.flush() if self.characters >= WINDOW else {}

    def flush(self) -> dict[str, int]:
        """Submit the window to be counted, in batches."""
        window, self.window, self.characters = self.window, {}, 0
        if self.count is None:
            return window
        texts, weights, size = [], [], 0
        for number, (text, weight) in enumerate(window.items(), start=1):
            texts.append(text)
            weights.append(weight)
            size += len(text) + 1
            if size >= BATCH or number == len(window):
                run = self.prefix.with_suffix(f".tokens-{len(self.calls)}")
                self.calls.append(self.count(texts, weights, run))
                texts, weights, size = [], [], 0
        return window

    def finish(self) -> CountedSide:
        """Wait for all batches, and return the counts."""
        parts = [call.result() for call in self.calls]
        return CountedSide(
            self.words.leave(),
            self.total,
            [part.run for part in parts],
            sum(part.tokens for part in parts),
            sum(part.text_bytes for part in parts),
            max((part.longest for part in parts), default=0),
        )
