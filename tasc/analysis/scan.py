"""One pass over a split: words, tokens, repetitions, and samples for predictions.

Memory grows only with the distinct words and by eight bytes per distinct output: n-grams go to
sorted runs in a temporary folder.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasc.analysis.counted import Counted, CountedSide, Scan, load_counted, merge, save_counted
from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.sample import Sample
from tasc.backend import WordCounter, write_counts
from tasc.data.stream import Piece, Stream, pieces
from tasc.execution.kept import Files, keep
from tasc.files.scratch import scratch
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer

BATCH = 4_000_000  # characters of a batch: about a million tokens, 8 MB of records
WINDOW = 16_000_000  # characters of distinct texts that are collected before they are counted


def scan(
    stream: Stream,
    tokenizer: LoadedTokenizer | None = None,
    *,
    n_max: int = 4,
    progress: Progress = silent,
) -> Scan:
    """Read a split once and describe it, with n-grams of up to ``n_max``, or 4.

    Without a tokenizer, only words are counted. Raises InputError if an example is malformed, the
    split is empty, or the temporary folder cannot be written; StorageError if no space is left.
    """
    with scratch() as folder:
        counted = count_rows(stream, tokenizer, folder, progress)
        return merge([counted], stream, tokenizer, n_max=n_max, progress=progress)


def count_rows(
    stream: Stream | Piece,
    tokenizer: LoadedTokenizer | None,
    folder: Path,
    progress: Progress = silent,
) -> Counted:
    """Count a split, or a part of it; the runs stay in ``folder``."""
    with pool(tokenizer) if tokenizer else nullcontext() as counting:
        inputs, outputs = (_Reading(folder / name, counting) for name in ("input", "output"))
        sample = Sample()
        samples = dropped = 0
        for rows in stream.rows():
            samples, dropped = samples + len(rows.outputs), dropped + rows.dropped
            inputs.add(rows.inputs, rows.input_words)
            sample.add(outputs.add(rows.outputs, rows.output_words))
            progress("read", samples, 0)
        inputs.flush()
        sample.add(outputs.flush())
        sides = inputs.finish(), outputs.finish()
    return Counted(samples, dropped, *sides, sample.finish(), sample.distinct)


@dataclass(frozen=True)
class Part:
    """The counts of one batch, each text multiplied by its weight."""

    run: Path  # the n-grams, a sorted run
    tokens: int
    text_bytes: int  # UTF-8 bytes
    longest: int  # tokens of the longest text


# (texts, their weights, file for the run) -> their counts, in a thread
Submit = Callable[[Sequence[str], Sequence[int], Path], Future[Part]]


class _Reading:
    """The inputs or the outputs while they are read."""

    def __init__(self, prefix: Path, count: Submit | None) -> None:
        self.prefix, self.count = prefix, count
        self.words, self.total = WordCounter(prefix.with_suffix(".words")), 0
        self.window, self.characters = dict[str, int](), 0  # texts and their characters
        self.calls = list[Future[Part]]()

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


@contextmanager
def pool(tokenizer: LoadedTokenizer) -> Iterator[Submit]:
    """Yield a function that counts batches in two threads: one counts while the other tokenises.

    The function waits while three batches are in the queue. It raises InputError if an earlier
    batch could not be counted.
    """
    executor, waiting = ThreadPoolExecutor(2), deque[Future[Part]]()

    def submit(texts: Sequence[str], weights: Sequence[int], run: Path) -> Future[Part]:
        while len(waiting) >= 3:
            waiting.popleft().result()
        waiting.append(executor.submit(count, tokenizer, texts, weights, run))
        return waiting[-1]

    try:
        yield submit
    finally:
        executor.shutdown(cancel_futures=True)


def count(
    tokenizer: LoadedTokenizer, texts: Sequence[str], weights: Sequence[int], run: Path
) -> Part:
    """Tokenise ``texts`` and save the n-grams of their tokens as a sorted run."""
    encoded = tokenizer.encode(texts)
    times = np.asarray(weights, np.int64)
    write_counts(encoded.tokens, encoded.offsets, times, run)
    lengths = np.diff(encoded.offsets)
    sizes = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    return Part(run, int(lengths @ times), int(sizes @ times), int(lengths.max(initial=0)))


def count_pieces(
    stream: Stream,
    tokenizer: LoadedTokenizer | None,
    options: AnalyzeOptions,
    work: Path,
    *,
    resume: bool,
    progress: Progress = silent,
) -> list[Counted]:
    """Count a split in pieces, whose counts stay below ``work``; return them in order."""
    done: dict[int, Path] = {}
    folder = work / "counted"
    with options.start(tokenizer) as executor:
        for number, piece_folder in keep(
            executor, count_piece, pieces(stream), folder, resume=resume
        ):
            done[number] = piece_folder
            progress("count pieces", len(done), 0)
    return [load_counted(done[number]) for number in sorted(done)]


def count_piece(tokenizer: LoadedTokenizer | None, piece: Piece) -> Files:
    """Count a piece in a worker; return the files of its counts."""
    with scratch() as folder:
        counted = folder / "counted"
        saved = folder / "made"
        counted.mkdir()
        saved.mkdir()
        save_counted(count_rows(piece, tokenizer, counted), saved)
        return {file.name: file.read_bytes() for file in saved.iterdir()}
