"""Time the analysis of a large corpus relative to its tokenization.

The corpus repeats MedQuAD's training split. One word in ten is replaced by another one, and each
row has a number, so that no two rows are equal. ``tokenise`` reads the file and tokenizes inputs
and outputs, ``scan`` also counts all statistics, and ``analyze`` also predicts the effect of new
tokens. The ways take turns. Each runs in a process of its own, which gives its own peak memory.
Usage: python -m benchmarks.analysis --data-dir DIR [--tokens 100] [--repeats 3] [--json FILE]
"""

import argparse
import json
import random
import statistics
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.figures import clocked, peak_bytes, publish, run_alone, script
from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.report import analyze
from tasc.analysis.scan import BATCH, scan
from tasc.data.corpus import Rows, load
from tasc.data.source import Source
from tasc.data.stream import Stream, open_stream
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer


def main() -> None:
    """Measure all ways in turn and print the figures as JSON."""
    parser = script(__doc__, data=True)
    parser.add_argument("--tokenizer", help="default: tokenizers/qwen2 in the data folder")
    parser.add_argument("--tokens", type=float, default=100, help="millions of output tokens")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--ways", default="tokenise,scan,analyze")
    parser.add_argument("--corpus", type=Path, help="file of the corpus; written if missing")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options)))  # noqa: T201 - a script
        return
    with tempfile.TemporaryDirectory() as folder:
        corpus = options.corpus or Path(folder) / "train.jsonl"
        if not corpus.exists():
            write_corpus(options, corpus)
        runs = [
            run_alone("benchmarks.analysis", "--corpus", str(corpus), "--only", way)
            for _ in range(options.repeats)
            for way in options.ways.split(",")
        ]
        size = corpus.stat().st_size
    publish({"file_bytes": size, "summary": summary(runs), "runs": runs}, options.json)


def write_corpus(options: argparse.Namespace, path: Path) -> None:
    """Write rows until their outputs have about ``--tokens`` million tokens."""
    examples = load(Source(str(options.data_dir / "medquad")), "train").examples
    words = [word for example in examples[:2000] for word in example.output.split()]
    tokenizer = tokenizer_of(options)
    some = [example.output for example in examples[:500]]
    rate = len(tokenizer.encode(some).tokens) / sum(map(len, some))
    rng, held, row = random.Random(0), 0.0, 0
    with path.open("w", encoding="utf-8") as file:
        while held < options.tokens * 1e6:
            example = examples[row % len(examples)]
            output = noisy(example.output, words, rng) + f" {row}"
            text = noisy(example.input, words, rng) + f" {row}"
            file.write(json.dumps({"input": text, "output": output}) + "\n")
            held, row = held + rate * len(output), row + 1


def noisy(text: str, words: list[str], rng: random.Random) -> str:
    """Replace one word in ten of ``text``; its spaces stay."""
    parts = text.split(" ")
    for position in range(rng.randrange(10), len(parts), 10):
        parts[position] = words[int(rng.random() * len(words))]
    return " ".join(parts)


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Process the corpus in the way ``--only``."""
    tokenizer, stream = tokenizer_of(options), open_stream(Source(str(options.corpus)), "train")
    tokenizer.encode(["warm"])
    with clocked() as clock:
        if options.only == "tokenise":
            tokens = tokenise(stream.rows(), tokenizer)
        elif options.only == "scan":
            tokens = counted(stream, tokenizer)
        else:
            report = analyze(stream, tokenizer, AnalyzeOptions(source=stream.source.path)).report
            sides = report.tokens
            tokens = sides.input.tokens + sides.output.tokens if sides else 0
    return {"way": options.only, "tokens": tokens, **clock, "peak_bytes": peak_bytes()}


def counted(stream: Stream, tokenizer: LoadedTokenizer) -> int:
    """Count all statistics of a split, and return its tokens of inputs and outputs."""
    found = scan(stream, tokenizer)
    return sum(side.tokens.tokens for side in (found.input, found.output) if side.tokens)


def tokenise(rows: Iterable[Rows], tokenizer: LoadedTokenizer) -> int:
    """Return the number of tokens; like the analysis, tokenize two batches at a time."""
    waiting, held, tokens = [], [], 0
    with ThreadPoolExecutor(2) as pool:
        for part in rows:
            held += [*part.inputs, *part.outputs]
            if sum(map(len, held)) >= BATCH:
                waiting.append(pool.submit(tokenizer.encode, held))
                held = []
            if len(waiting) > 3:
                tokens += len(waiting.pop(0).result().tokens)
        waiting.append(pool.submit(tokenizer.encode, held))
        return tokens + sum(len(call.result().tokens) for call in waiting)


def tokenizer_of(options: argparse.Namespace) -> LoadedTokenizer:
    """Load the tokenizer of the options."""
    return load_tokenizer(options.tokenizer or str(options.data_dir / "tokenizers" / "qwen2"))


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return each way's medians, and its ratios to tokenization in the same repeat."""
    ways = {way: [run for run in runs if run["way"] == way] for way in (r["way"] for r in runs)}
    base = next(iter(ways.values()))
    result = {}
    for way, own in ways.items():
        result[way] = {
            "tokens": own[0]["tokens"],
            "peak_bytes": max(run["peak_bytes"] for run in own),
        }
        for kind in ("seconds", "processor_seconds"):
            ratios = [a[kind] / b[kind] for a, b in zip(own, base, strict=True)]
            result[way][f"{kind}_median"] = statistics.median(run[kind] for run in own)
            result[way][f"{kind}_ratio"] = statistics.median(ratios)
    return result


if __name__ == "__main__":
    main()
