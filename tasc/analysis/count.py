"""Tokenise and count texts, in batches and threads."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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


# (texts, their weights, file for the run) -> their counts, in a thread
Submit = Callable[[Sequence[str], Sequence[int], Path], Future[Part]]


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
