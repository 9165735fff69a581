"""The counts of a part of a split, and their merge to the statistics of the whole.

Runs of token n-grams merge in any order. The order of the parts matters for words, which are
numbered by appearance and whose n-grams cross the borders of samples. A part can be saved to a
folder, as arrays in safetensors and sorted runs.
"""

import json
import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from tasc.analysis.entropy import WordStats, describe
from tasc.analysis.outputs import Distinct
from tasc.analysis.sample import Sample
from tasc.analysis.tokens import TokenStats
from tasc.backend import CountedWords, WordCounter, merge_counts
from tasc.backend.base import Int64, UInt8
from tasc.data.corpus import refuse_empty
from tasc.data.stream import Stream
from tasc.errors import IntegrityError
from tasc.files.scratch import scratch
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer

TOP = 25  # most frequent word bigrams that are reported
FILE = "counted.safetensors"
_RUN = re.compile(r"(input|output)\.(words|tokens)-[0-9]+")  # a file of the same folder
_WORDS = ("letters", "ends", "first", "last")
_NUMBERS = ("total", "tokens", "text_bytes", "longest")
_DTYPES = {"letters": np.uint8, "ends": np.int64, "first": np.int32, "last": np.int32}
_DTYPES |= {"weights": np.int64, "hashes": np.uint64}


@dataclass(frozen=True)
class CountedSide:
    """The inputs or the outputs of a part of a split."""

    words: CountedWords  # n-grams of words
    total: int  # number of words
    runs: list[Path]  # n-grams of tokens, sorted runs; empty without a tokenizer
    tokens: int
    text_bytes: int  # UTF-8 bytes that were tokenised
    longest: int  # tokens of the longest text


@dataclass(frozen=True)
class Counted:
    """The counts of a part of a split."""

    samples: int  # examples with an output
    dropped: int  # examples without one
    input: CountedSide
    output: CountedSide
    sample: Distinct  # distinct outputs and their counts, chosen by ``Sample``
    hashes: npt.NDArray[np.uint64]  # (D,) of all distinct outputs


@dataclass(frozen=True)
class Side:
    """Statistics of the inputs or the outputs."""

    words: WordStats
    tokens: TokenStats | None  # None without a tokenizer
    counts: Int64  # (V,) by token id; empty without a tokenizer


@dataclass(frozen=True)
class Scan:
    """The statistics of a split."""

    samples: int  # examples with an output
    dropped: int  # examples without one
    distinct_outputs: int  # by 64-bit hash
    input: Side
    output: Side
    # Distinct outputs and their counts, in order of first appearance: all of them, or those with
    # the smallest hashes if there are too many
    sample: Distinct


def merge(
    parts: Sequence[Counted],
    stream: Stream,
    tokenizer: LoadedTokenizer | None,
    *,
    n_max: int = 4,
    progress: Progress = silent,
) -> Scan:
    """Merge the parts of a split, in order, and describe it with n-grams of up to ``n_max``, or 4.

    Raises InputError if the split is empty.
    """
    samples = sum(part.samples for part in parts)
    dropped = sum(part.dropped for part in parts)
    refuse_empty(stream.source, stream.split, samples, dropped)
    progress("merge counts", 0, 2)
    sample = Sample()
    for part in parts:
        distinct = zip(part.sample.texts, part.sample.weights.tolist(), strict=True)
        sample.add(dict(distinct), part.hashes)
    size = len(tokenizer.vocabulary()) if tokenizer else 0
    sides = [part.output for part in parts], [part.input for part in parts]
    with scratch() as folder, ThreadPoolExecutor(2) as both:  # merging releases the interpreter
        words = both.map(partial(_words, samples, n_max), sides, (folder / "out", folder / "in"))
        tokens = both.map(partial(_tokens, samples, n_max, size), sides)
        after, before = (
            Side(words=word_stats, tokens=token_stats, counts=token_counts)
            for word_stats, (token_stats, token_counts) in zip(words, tokens, strict=True)
        )
    progress("merge counts", 2, 2)
    return Scan(samples, dropped, len(sample.distinct), before, after, sample.finish())


def _tokens(
    samples: int, n_max: int, vocabulary: int, sides: Sequence[CountedSide]
) -> tuple[TokenStats | None, Int64]:
    if not vocabulary:
        return None, np.zeros(0, np.int64)
    counts = merge_counts([run for side in sides for run in side.runs])
    tokens = sum(side.tokens for side in sides)
    spectra = enumerate(counts.spectra[:n_max], start=1)
    stats = TokenStats(
        samples=samples,
        tokens=tokens,
        used_tokens=len(counts.ids),
        tokens_per_sample=tokens / max(samples, 1),
        longest=max(side.longest for side in sides),
        bytes_per_token=sum(side.text_bytes for side in sides) / max(tokens, 1),
        ngrams=tuple(describe(spectrum, n, vocabulary) for n, spectrum in spectra),
    )
    return stats, counts.dense(vocabulary)


def _words(samples: int, n_max: int, sides: Sequence[CountedSide], prefix: Path) -> WordStats:
    words, total = WordCounter(prefix), sum(side.total for side in sides)
    for side in sides:
        words.take(side.words)
    counts = merge_counts(words.finish(), TOP)
    pairs, spectra = counts.spectra[1], enumerate(counts.spectra[: max(n_max, 2)], start=1)
    return WordStats(
        samples=samples,
        words=total,
        distinct_words=len(counts.ids),
        words_per_sample=total / max(samples, 1),
        ngrams=tuple(describe(spectrum, n, len(counts.ids)) for n, spectrum in spectra),
        top=tuple(
            (" ".join(map(words.word, ids)), count)
            for ids, count in zip(pairs.top_ids.tolist(), pairs.top_counts.tolist(), strict=True)
        ),
    )


def save_counted(counted: Counted, folder: Path) -> None:
    """Write the counts into ``folder``, and move their runs there."""
    arrays = {
        **_packed("sample", counted.sample.texts),
        "sample.weights": counted.sample.weights,
        "sample.hashes": counted.hashes,
    }
    facts: dict[str, Any] = {"samples": counted.samples, "dropped": counted.dropped}
    for name, side in (("input", counted.input), ("output", counted.output)):
        arrays |= {f"{name}.{part}": getattr(side.words, part) for part in _WORDS}
        facts[name] = {number: getattr(side, number) for number in _NUMBERS}
        for kind, runs in (("words", side.words.runs), ("runs", side.runs)):
            facts[name][kind] = [run.name for run in runs]
            for run in runs:
                shutil.move(run, folder / run.name)
    save_file(arrays, folder / FILE, metadata={"facts": json.dumps(facts)})


def load_counted(folder: Path) -> Counted:
    """Read counts; their runs stay in ``folder``, and are checked when they are merged.

    Raises IntegrityError if a file is missing or damaged.
    """
    try:
        arrays, facts = _read(folder / FILE)
        sample = Distinct(_unpacked("sample", arrays), arrays["sample.weights"])
        if len(sample.texts) != len(sample.weights) or sample.weights.min(initial=1) < 1:
            raise ValueError("texts and weights do not fit together")
        samples, dropped = (_number(facts[name]) for name in ("samples", "dropped"))
        before, after = (_side(name, folder, facts[name], arrays) for name in ("input", "output"))
        return Counted(samples, dropped, before, after, sample, arrays["sample.hashes"])
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise IntegrityError(
            f"{folder / FILE} is damaged ({error}): run the command that made it again"
        ) from None


def _read(file: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays of a file, whose types are checked, and its facts, which are not."""
    with safe_open(file, framework="numpy") as tensors:
        arrays = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118
        facts: dict[str, Any] = json.loads((tensors.metadata() or {})["facts"])
    for name, array in arrays.items():
        if array.dtype != _DTYPES[name.partition(".")[2]] or array.ndim != 1:
            raise ValueError(f"{name} is {array.dtype} {array.shape}")
    return arrays, facts


def _side(
    name: str, folder: Path, facts: dict[str, Any], arrays: dict[str, np.ndarray]
) -> CountedSide:
    runs = {kind: [_run(folder, run) for run in facts[kind]] for kind in ("words", "runs")}
    words = CountedWords(**{part: arrays[f"{name}.{part}"] for part in _WORDS}, runs=runs["words"])
    numbers = {number: _number(facts[number]) for number in _NUMBERS}
    return CountedSide(words=words, runs=runs["runs"], **numbers)


def _run(folder: Path, name: str) -> Path:
    if not _RUN.fullmatch(name) or not (folder / name).is_file():
        raise ValueError(f"no run {name!r}")
    return folder / name


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} counts nothing")
    return value


def _packed(name: str, texts: Sequence[str]) -> dict[str, UInt8 | Int64]:
    """Return texts as UTF-8 end to end, and where each ends."""
    letters = [text.encode() for text in texts]
    return {
        f"{name}.letters": np.frombuffer(b"".join(letters), np.uint8),
        f"{name}.ends": np.cumsum([len(text) for text in letters], dtype=np.int64),
    }


def _unpacked(name: str, arrays: dict[str, np.ndarray]) -> list[str]:
    letters, ends = arrays[f"{name}.letters"].tobytes(), [0, *arrays[f"{name}.ends"].tolist()]
    if sorted(ends) != ends or ends[-1] != len(letters):
        raise ValueError(f"texts of {name} do not end where they should")
    return [letters[a:b].decode() for a, b in pairwise(ends)]
