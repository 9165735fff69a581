"""Tokenise and count texts, in batches and threads."""

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
    """The counts of one batch, each text multiplied by its weight."""

    run: Path  # the n-grams, a sorted run
    tokens: int
    text_bytes: int  # UTF-8 bytes
    longest: int  # tokens of the longest text


@dataclass
class Pool:
    """Counts batches in threads, with a bounded queue."""

    executor: Executor
    tokenizer: LoadedTokenizer
    most: int
    waiting: deque[Future[Part]]

    def submit(self, texts: Sequence[str], weights: Sequence[int], run: Path) -> Future[Part]:
        """Count ``texts`` into the file ``run``; wait if the queue is full.

        Raises InputError if an earlier batch could not be counted.
        """
        while len(self.waiting) >= self.most:
            self.waiting.popleft().result()
        call = self.executor.submit(count, self.tokenizer, texts, weights, run)
        self.waiting.append(call)
        return call


@contextmanager
def pool(tokenizer: LoadedTokenizer) -> Iterator[Pool]:
    """Open a pool of two threads, so that one batch is counted while another is tokenised."""
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
    times = np.asarray(weights, np.int64)
    write_counts(encoded.tokens, encoded.offsets, times, run)
    lengths = np.diff(encoded.offsets)
    sizes = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    return Part(run, int(lengths @ times), int(sizes @ times), int(lengths.max(initial=0)))
