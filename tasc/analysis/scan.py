"""One pass over a split: words, tokens, repetitions, and a sample of outputs to predict from.

Memory does not grow with the corpus but for the different words, eight bytes for each different
output, and nothing else: n-grams go to sorted runs in a scratch folder.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from tasc.analysis.count import BATCH, Part, Pool, pool
from tasc.analysis.counted import Counted, CountedSide, Scan, describe_all
from tasc.analysis.sample import RowSample, Sample
from tasc.backend import WordCounter
from tasc.data.stream import Stream, refuse_empty
from tasc.files.scratch import scratch
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer

WINDOW = 16_000_000  # characters of different texts in which repetitions are found


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
        tokenizer: the model's; without one only words are counted.
        n_max: longest n-gram; statistics end at 4.
        progress: told of the rows read, and of the merging of what was counted.

    Raises:
        InputError: a row is malformed, the split is empty, or the scratch folder cannot be written.
        StorageError: there is no room in it.
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
    """Describe a split by the parts that it was counted in, in order; see ``scan``."""
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
    """Count the rows of a split, or of a part of it; the runs are left in ``folder``."""
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
    """The inputs or outputs under way: words in order, tokens of each different text."""

    prefix: Path
    pool: Pool | None
    words: WordCounter = field(init=False)
    total: int = 0
    window: dict[str, int] = field(default_factory=dict)
    held: int = 0  # characters in the window
    calls: list[Future[Part]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words = WordCounter(self.prefix.with_suffix(".words"))

    def add(self, texts: Sequence[str], listed: Sequence[Sequence[str]] | None) -> dict[str, int]:
        """Take rows; returns the window's texts and their counts once it is full, else nothing."""
        if listed is None:
            self.total += self.words.add_texts(texts)
        else:
            self.total += sum(self.words.add_words(words) for words in listed)
        for text in texts:
            seen = self.window.get(text, 0)
            self.window[text] = seen + 1
            self.held += 0 if seen else len(text)
        return self.flush() if self.held >= WINDOW else {}

    def flush(self) -> dict[str, int]:
        """Hand the window over to be counted, in batches."""
        window, self.window, self.held = self.window, {}, 0
        if self.pool is None:
            return window
        texts, weights, size = [], [], 0
        for text, weight in window.items():
            texts.append(text)
            weights.append(weight)
            size += len(text) + 1
            if size >= BATCH:
                self._submit(self.pool, texts, weights)
                texts, weights, size = [], [], 0
        if texts:
            self._submit(self.pool, texts, weights)
        return window

    def _submit(self, counting: Pool, texts: list[str], weights: list[int]) -> None:
        run = self.prefix.with_suffix(f".tokens-{len(self.calls)}")
        self.calls.append(counting.submit(texts, weights, run))

    def finish(self) -> CountedSide:
        """Return all that was counted."""
        parts = [call.result() for call in self.calls]
        return CountedSide(
            self.words.leave(),
            self.total,
            [part.run for part in parts],
            sum(part.tokens for part in parts),
            sum(part.text_bytes for part in parts),
            max((part.longest for part in parts), default=0),
        )
