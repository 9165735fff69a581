"""Measure the growth of time, memory and disk with the corpus, for counting and for the index.

The corpus repeats MedQuAD's training split with a tenth of it replaced: words for ``analyze``,
which reads and tokenizes a file (``benchmarks.analysis``), tokens for ``index``, which gets tokens.
Each size runs in a process of its own, which gives its own peak memory. Drafts of 16 nodes follow
texts of the corpus with one token in ten replaced. ``--open`` instead times the first draft after
opening an index.
Usage: python -m benchmarks.growth --data-dir DIR [--analyze 1 10 100] [--index 1 4 10 100 200]
       python -m benchmarks.growth --data-dir DIR --open INDEX...
"""

import argparse
import json
import math
import os
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.analysis import counted, tokenizer_of, write_corpus
from benchmarks.figures import clocked, peak_bytes, publish, run_alone, script
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.data.stream import open_stream
from tasc.decoding.drafters.ngram.building import IndexFile
from tasc.decoding.drafters.ngram.index import FILE, load_index
from tasc.decoding.drafters.ngram.options import Counts
from tasc.decoding.drafters.ngram.tasc_spec import TascSpec, TascSpecOptions
from tasc.files.disk import files_below
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer

NOISE = 0.1
GROWING = ("processor_seconds", "peak_bytes", "disk_bytes")


def main() -> None:
    """Measure all sizes and print the figures as JSON."""
    parser = script(__doc__, data=True)
    parser.add_argument("--tokenizer", help="default: tokenizers/qwen2 in the data folder")
    parser.add_argument("--analyze", type=float, nargs="*", default=[1, 10, 100], help="millions")
    parser.add_argument("--index", type=float, nargs="*", default=[1, 4, 10, 100, 200])
    parser.add_argument("--memory", type=float, default=2.0, help="GiB, as --memory of tasc index")
    parser.add_argument("--open", type=Path, nargs="*", default=[], help="existing indexes")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        kind, millions = options.only.split("=")
        with tempfile.TemporaryDirectory() as folder:
            measure = {"analyze": measure_analyze, "index": measure_index}[kind]
            print(json.dumps(measure(options, float(millions), Path(folder))))  # noqa: T201 - a script
        return
    if options.open:
        publish({"opened": [opened(options, folder) for folder in options.open]}, options.json)
        return
    runs: dict[str, list[dict[str, Any]]] = {"index": [], "analyze": []}
    for kind, made in runs.items():
        for millions in getattr(options, kind):
            made.append(run_alone("benchmarks.growth", "--only", f"{kind}={millions}"))
            made.sort(key=lambda run: float(run["tokens"]))
            publish(summary(runs), options.json, quiet=True)  # kept if a later size fails
    publish(summary(runs), options.json)


def summary(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the runs and their exponents of growth."""
    return {kind: {"runs": made, "exponents": exponents(made)} for kind, made in runs.items()}


def measure_analyze(options: argparse.Namespace, millions: float, folder: Path) -> dict[str, Any]:
    """Count a corpus of about ``millions`` million output tokens, as ``tasc analyze`` does."""
    tokenizer, corpus = tokenizer_of(options), folder / "train.jsonl"
    options.tokens = millions
    write_corpus(options, corpus)
    tokenizer.encode(["warm"])
    tempfile.tempdir = str(folder / "scratch")
    Path(tempfile.tempdir).mkdir()
    with most_bytes(Path(tempfile.tempdir)) as disk, clocked() as clock:
        tokens = counted(open_stream(Source(str(corpus)), "train"), tokenizer)
    return {
        "tokens": tokens,
        "file_bytes": corpus.stat().st_size,
        **clock,
        "peak_bytes": peak_bytes(),
        "disk_bytes": max(disk),
    }


def measure_index(options: argparse.Namespace, millions: float, folder: Path) -> dict[str, Any]:
    """Build an index of ``millions`` million tokens, open it, and draft."""
    tokenizer = tokenizer_of(options)
    known = tokenizer.encode(load(Source(str(options.data_dir / "medquad")), "train").outputs)
    file = IndexFile(folder / FILE, tokenizer, Counts())
    took = Counter[str]()
    for texts in repeated(known, int(millions * 1e6)):
        with clocked() as clock:
            file.add(texts)
        took.update(clock)
    with most_bytes(folder) as disk, clocked() as clock:
        file.finish(int(options.memory * 2**30))
    took.update(clock)
    peak = peak_bytes()
    index = load_index(folder, tokenizer)
    return {
        "tokens": file.tokens,
        **took,
        "tokens_per_processor_second": file.tokens / took["processor_seconds"],
        "peak_bytes": peak,
        "disk_bytes": max(disk),
        "index_bytes": file.path.stat().st_size,
        "contexts": index.contexts,
        "draft_microseconds": draft_times(folder, tokenizer, known),
    }


def repeated(known: Encoded, tokens: int) -> Iterator[Encoded]:
    """Yield the texts repeatedly, until ``tokens``, with a tenth of the tokens replaced anew."""
    rng, left = np.random.default_rng(0), tokens
    while left > 0:
        count = len(known.offsets) - 1
        if left < len(known.tokens):
            count = max(int(np.searchsorted(known.offsets, left)) - 1, 1)
        offsets = known.offsets[: count + 1]
        yield Encoded(noisy(known.tokens[: offsets[-1]], known.tokens, rng), offsets)
        left -= int(offsets[-1])


def noisy(tokens: np.ndarray, others: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Replace a tenth of ``tokens`` (T,) by random ones of ``others``."""
    made = tokens.copy()
    positions = rng.random(len(made)) < NOISE
    made[positions] = others[rng.integers(0, len(others), int(positions.sum()))]
    return made


def opened(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Time the first drafts of the index in ``folder``, with a cold and a warm page cache."""
    tokenizer = tokenizer_of(options)
    known = tokenizer.encode(load(Source(str(options.data_dir / "medquad")), "train").outputs)
    given = folder, tokenizer, known
    found = {name: first_drafts(*given, cold=name == "cold") for name in ("cold", "warm")}
    facts = {"tokens": load_index(folder, tokenizer).tokens}
    return facts | found | {"draft_microseconds": draft_times(*given)}


def first_drafts(
    folder: Path, tokenizer: LoadedTokenizer, known: Encoded, *, cold: bool
) -> dict[str, float]:
    """Return the seconds from opening an index to its first draft, in nine runs."""
    tokenizer.vocabulary()  # a loaded model already has it
    clocks, used = [], []
    for _ in range(9):
        if cold:
            with (folder / FILE).open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        begin = time.perf_counter(), time.thread_time()
        drafter = TascSpec([load_index(folder, tokenizer)], tokenizer.eos_id, TascSpecOptions())
        drafter.start(known.tokens[:8])
        drafter.observe(known.tokens[8:16])
        assert len(drafter.draft(16).tokens)
        clocks.append(time.perf_counter() - begin[0])
        used.append(time.thread_time() - begin[1])
        del drafter  # and its mapping, whose pages could not be dropped
    return {
        "seconds": statistics.median(clocks),
        "least_seconds": min(clocks),
        "processor_seconds": statistics.median(used),
    }


def draft_times(folder: Path, tokenizer: LoadedTokenizer, known: Encoded) -> dict[str, float]:
    """Return microseconds per step, which observes a token and drafts 16 nodes."""
    drafter = TascSpec([load_index(folder, tokenizer)], tokenizer.eos_id, TascSpecOptions())
    rng, rounds = np.random.default_rng(1), []
    for _ in range(9):
        used, steps = time.thread_time(), 0
        for _ in range(200):
            at = int(rng.integers(len(known.tokens) - 40))
            text = noisy(known.tokens[at : at + 40], known.tokens, rng)
            drafter.start(text[:8])
            for i in range(8, len(text)):
                drafter.observe(text[i : i + 1])
                drafter.draft(16)
                steps += 1
        rounds.append(1e6 * (time.thread_time() - used) / steps)
    return {"first": rounds[0], "median": statistics.median(rounds[1:]), "least": min(rounds)}


@contextmanager
def most_bytes(folder: Path) -> Iterator[list[int]]:
    """Yield a list that gets the bytes below ``folder`` ten times per second."""
    done, most = threading.Event(), [0]

    def look() -> None:
        while not done.wait(0.1):
            most.append(size_of(folder))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()
        most.append(size_of(folder))


def size_of(folder: Path) -> int:
    """Return the bytes of the files below ``folder``."""
    with suppress(FileNotFoundError):  # deleted meanwhile
        return sum(path.stat().st_size for path in files_below(folder))
    return 0


def exponents(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the log-log slope of each figure against tokens, from 10 M tokens on.

    Constant costs dominate below that size.
    """
    large = [run for run in runs if run["tokens"] > 9e6]
    if len(large) < 2:
        return {}
    first, last = large[0], large[-1]
    steps = math.log(last["tokens"] / first["tokens"])
    return {key: math.log(last[key] / first[key]) / steps for key in GROWING}


if __name__ == "__main__":
    main()
