"""Tokenising and counting, a batch of texts at a time: in threads, or in processes."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from tasc.backend import write_counts
from tasc.errors import TascError
from tasc.tokenizer.loaded import LoadedTokenizer

BATCH = 4_000_000  # characters of a batch: about a million tokens, 8 MB of records
_here: dict[str, LoadedTokenizer] = {}  # of a worker process


@dataclass(frozen=True)
class Part:
    """What one batch held; each text counts as often as its weight says.

    Attributes:
        run: the n-grams, a sorted run.
        tokens: all tokens.
        text_bytes: UTF-8 bytes.
        longest: tokens of the longest text.
    """

    run: Path
    tokens: int
    text_bytes: int
    longest: int


@dataclass
class Pool:
    """Counts batches beside the caller and keeps at most a few of them waiting."""

    executor: Executor
    tokenizer: LoadedTokenizer | None  # None where each worker process has its own
    most: int
    waiting: deque[Future[Part]]

    def submit(self, texts: Sequence[str], weights: Sequence[int], run: Path) -> Future[Part]:
        """Count ``texts`` into the file ``run``; waits while too many batches do.

        Raises:
            InputError: an earlier batch could not be counted.
            TascError: a worker process was killed.
        """
        while len(self.waiting) >= self.most:
            finish(self.waiting.popleft())
        call = self.executor.submit(count, self.tokenizer, texts, weights, run)
        self.waiting.append(call)
        return call


@contextmanager
def pool(tokenizer: LoadedTokenizer, jobs: int) -> Iterator[Pool]:
    """Open a pool: with one job the tokenizer's own threads use all cores, else ``jobs`` processes.

    Two batches are in work with one job, so that one is counted while the other is tokenised.
    """
    executor: Executor
    if jobs == 1:
        executor = ThreadPoolExecutor(2)
    else:
        executor = ProcessPoolExecutor(
            jobs, get_context("spawn"), _start, (tokenizer.tokenizer.to_str(), tokenizer.path)
        )
    try:
        yield Pool(executor, tokenizer if jobs == 1 else None, 2 + jobs, deque())
    finally:
        executor.shutdown(cancel_futures=True)


def finish(call: "Future[Part]") -> Part:
    """Return what a batch held, once it is counted."""
    try:
        return call.result()
    except BrokenProcessPool:
        raise TascError(
            "a worker process died, perhaps for lack of memory: use fewer --jobs"
        ) from None


def count(
    tokenizer: LoadedTokenizer | None, texts: Sequence[str], weights: Sequence[int], run: Path
) -> Part:
    """Tokenise ``texts`` and save the n-grams of their tokens as a sorted run."""
    encoded = (tokenizer or _here["tokenizer"]).encode(texts)
    often = np.asarray(weights, np.int64)
    write_counts(encoded.tokens, encoded.offsets, often, run)
    lengths = np.diff(encoded.offsets)
    sizes = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    return Part(run, int(lengths @ often), int(sizes @ often), int(lengths.max(initial=0)))


def _start(tokenizer: str, path: str) -> None:
    """Begin a worker process: it is one of many, so its tokenizer uses one thread."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _here["tokenizer"] = LoadedTokenizer(Tokenizer.from_str(tokenizer), path)
