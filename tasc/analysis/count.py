"""Tokenising and counting, a batch of texts at a time, in threads."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasc.backend import write_counts
from tasc.tokenizer.loaded import LoadedTokenizer

BATCH = 4_000_000  # characters of a batch: about a million tokens, 8 MB of records


@dataclass(frozen=True)
class Part:
    """What one batch held; each text counts as often as its weight says."""

    run: Path  # the n-grams, a sorted run
    tokens: int  # all tokens
    text_bytes: int  # UTF-8 bytes
    longest: int  # tokens of the longest text


@dataclass
class Pool:
    """Counts batches beside the caller and keeps at most a few of them waiting."""

    executor: Executor
    tokenizer: LoadedTokenizer
    most: int
    waiting: deque[Future[Part]]

    def submit(self, texts: Sequence[str], weights: Sequence[int], run: Path) -> Future[Part]:
        """Count ``texts`` into the file ``run``; waits while too many batches do.

        Raises:
            InputError: an earlier batch could not be counted.
        """
        while len(self.waiting) >= self.most:
            self.waiting.popleft().result()
        call = self.executor.submit(count, self.tokenizer, texts, weights, run)
        self.waiting.append(call)
        return call


@contextmanager
def pool(tokenizer: LoadedTokenizer) -> Iterator[Pool]:
    """Open a pool of two threads: one batch is counted while the other is tokenised."""
    executor = ThreadPoolExecutor(2)
    try:
        yield Pool(executor, tokenizer, 3, deque())
    finally:
        executor.shutdown(cancel_futures=True)


def count(
    tokenizer: LoadedTokenizer, texts: Sequence[str], weights: Sequence[int], run: Path
) -> Part:
    """Tokenise ``texts`` and save the n-grams of their tokens as a sorted run."""
    encoded = tokenizer.encode(texts)
    often = np.asarray(weights, np.int64)
    write_counts(encoded.tokens, encoded.offsets, often, run)
    lengths = np.diff(encoded.offsets)
    sizes = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    return Part(run, int(lengths @ often), int(sizes @ often), int(lengths.max(initial=0)))
