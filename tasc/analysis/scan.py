"""One pass over a split: words, tokens, repetitions, and a sample of outputs to predict from.

Memory does not grow with the corpus but for the different words, eight bytes for each different
output, and nothing else: n-grams go to sorted runs in a scratch folder.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from tasc.analysis.count import BATCH, Part, Pool, finish, pool
from tasc.analysis.ngrams import WordStats, describe
from tasc.analysis.outputs import Distinct
from tasc.analysis.sample import RowSample, Sample, SomeRows
from tasc.analysis.tokens import TokenStats
from tasc.backend import Counts, WordCounter, merge_counts
from tasc.backend.base import Int64
from tasc.data.stream import Stream
from tasc.files.scratch import scratch
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer

WINDOW = 16_000_000  # characters of different texts in which repetitions are found
TOP = 25  # most frequent word bigrams that are kept
_N_WORDS = 4  # longest n-grams that are described


@dataclass(frozen=True)
class Side:
    """The inputs or the outputs; tokens and their counts by id (V,) need a tokenizer."""

    words: WordStats
    tokens: TokenStats | None
    counts: Int64 | None


@dataclass(frozen=True)
class Scan:
    """What a pass found.

    Attributes:
        samples: rows with an output.
        dropped: rows without one.
        distinct_outputs: different outputs, told apart by 64-bit hashes.
        input: statistics of the inputs.
        output: of the outputs.
        sample: different outputs with their multiplicities, in order of first appearance: all of
            them, or those whose hash is smallest where all are too many.
        rows: some rows with their prompts.
    """

    samples: int
    dropped: int
    distinct_outputs: int
    input: Side
    output: Side
    sample: Distinct
    rows: SomeRows


def scan(
    stream: Stream,
    tokenizer: LoadedTokenizer | None = None,
    *,
    jobs: int = 1,
    n_max: int = 4,
    progress: Progress = silent,
) -> Scan:
    """Read a split once and describe it; the result does not depend on ``jobs``.

    Args:
        stream: the split.
        tokenizer: the model's; without one only words are counted.
        jobs: processes that tokenise and count; one uses the tokenizer's own threads instead.
        n_max: longest n-gram; statistics end at 4.
        progress: told of the rows read, and of the merging of what was counted.

    Raises:
        InputError: a row is malformed, or the scratch folder cannot be written.
        StorageError: there is no room in it.
    """
    with (
        scratch() as folder,
        pool(tokenizer, jobs) if tokenizer else nullcontext() as counting,
    ):
        inputs, outputs = (_Reading(folder / name, counting) for name in ("in", "out"))
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
        size = len(tokenizer.vocabulary()) if tokenizer else 0
        progress("merge counts", 0, 2)
        with ThreadPoolExecutor(2) as both:  # merging lets go of the interpreter
            calls = [
                (
                    both.submit(reading.describe_words, samples, n_max),
                    both.submit(reading.describe_tokens, samples, size, n_max),
                )
                for reading in (outputs, inputs)
            ]
            after, before = (Side(words.result(), *tokens.result()) for words, tokens in calls)
        progress("merge counts", 2, 2)
    return Scan(samples, dropped, sample.distinct, before, after, sample.finish(), some.finish())


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

    def describe_tokens(
        self, samples: int, vocabulary: int, n_max: int
    ) -> tuple[TokenStats | None, Int64 | None]:
        if self.pool is None:
            return None, None
        parts = [finish(call) for call in self.calls]
        counts = merge_counts([part.run for part in parts])
        tokens = sum(part.tokens for part in parts)
        text_bytes = sum(part.text_bytes for part in parts)
        stats = TokenStats(
            samples=samples,
            tokens=tokens,
            used_tokens=len(counts.ids),
            tokens_per_sample=tokens / max(samples, 1),
            longest=max((part.longest for part in parts), default=0),
            bytes_per_token=text_bytes / max(tokens, 1),
            ngrams=tuple(
                describe(counts.spectra[n - 1], n, vocabulary)
                for n in range(1, min(n_max, _N_WORDS) + 1)
            ),
        )
        return stats, counts.dense(vocabulary)

    def describe_words(self, samples: int, n_max: int) -> WordStats:
        counts: Counts = merge_counts(self.words.finish(), TOP)
        pairs = counts.spectra[1]
        return WordStats(
            samples=samples,
            words=self.total,
            distinct_words=len(counts.ids),
            words_per_sample=self.total / max(samples, 1),
            ngrams=tuple(
                describe(counts.spectra[n - 1], n, len(counts.ids))
                for n in range(1, min(max(n_max, 2), _N_WORDS) + 1)
            ),
            top=tuple(
                (" ".join(map(self.words.word, ids)), count)
                for ids, count in zip(
                    pairs.top_ids.tolist(), pairs.top_counts.tolist(), strict=True
                )
            ),
        )
