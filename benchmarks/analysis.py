"""Time the analysis of a large corpus against tokenising it and nothing else.

The corpus is MedQuAD's training split over and over, one word in ten replaced by another and a
number of its own in every row, so that no two rows are equal. Each way runs in a process of its
own, so that peak memory is its own; ways take turns. ``tokenise`` reads the file and tokenises
inputs and outputs, ``scan`` is that with all statistics, and ``analyze`` predicts budgets, too.
Usage: python -m benchmarks.analysis --data-dir DIR [--tokens 100] [--repeats 3] [--json FILE]
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.figures import add_json, publish
from tasc.analysis.count import BATCH
from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.report import analyze
from tasc.analysis.scan import scan
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.data.stream import open_stream
from tasc.data.tokenizer import LoadedTokenizer, load_tokenizer


def main() -> None:
    """Measure every way, in turn, and print the figures as JSON."""
    options = parse()
    if options.only:
        print(json.dumps(measure(options)))  # noqa: T201 - a script
        return
    with tempfile.TemporaryDirectory() as folder:
        corpus = options.corpus or Path(folder) / "train.jsonl"
        if not corpus.exists():
            write_corpus(options, corpus)
        runs = [
            run_alone(way, corpus)
            for _ in range(options.repeats)
            for way in options.ways.split(",")
        ]
        size = corpus.stat().st_size
    publish({"file_bytes": size, "summary": summary(runs), "runs": runs}, options.json)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("TASC_DATA"))
    parser.add_argument("--tokenizer", help="default: tokenizers/qwen2 in the data folder")
    parser.add_argument("--tokens", type=float, default=100, help="millions, of outputs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--ways", default="tokenise,scan,analyze")
    parser.add_argument("--corpus", type=Path, help="keep the corpus in this file, or take it")
    add_json(parser)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.data_dir is None:
        parser.error("--data-dir or TASC_DATA must name the data folder")
    return options


def write_corpus(options: argparse.Namespace, path: Path) -> None:
    """Write rows until their outputs hold about so many tokens."""
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
    """Replace one word in ten; what separates words stays."""
    parts = text.split(" ")
    for place in range(rng.randrange(10), len(parts), 10):
        parts[place] = words[int(rng.random() * len(words))]
    return " ".join(parts)


def run_alone(way: str, corpus: Path) -> dict[str, object]:
    """Measure one way in a fresh process."""
    arguments = [*sys.argv[1:], "--corpus", str(corpus), "--only", way]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.analysis", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    result: dict[str, object] = json.loads(done.stdout)
    return result


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Go one way through the corpus."""
    tokenizer, stream = tokenizer_of(options), open_stream(Source(str(options.corpus)), "train")
    tokenizer.encode(["warm"])
    begin, used = time.perf_counter(), time.process_time()
    if options.only == "tokenise":
        tokens = tokenise(stream.rows(), tokenizer)
    elif options.only == "scan":
        found = scan(stream, tokenizer, jobs=options.jobs)
        tokens = sum(s.tokens.tokens for s in (found.input, found.output) if s.tokens)
    else:
        report = analyze(
            stream, tokenizer, AnalyzeOptions(source=stream.source.path, jobs=options.jobs)
        ).report
        tokens = report.tokens.input.tokens + report.tokens.output.tokens if report.tokens else 0
    return {
        "way": options.only,
        "tokens": tokens,
        "seconds": time.perf_counter() - begin,
        "processor_seconds": time.process_time() - used,
        "peak_bytes": peak_bytes(),
    }


def tokenise(rows: Iterable[object], tokenizer: LoadedTokenizer) -> int:
    """Read and tokenise, two batches at a time as the analysis does, and count the ids."""
    waiting, held, tokens = [], [], 0
    with ThreadPoolExecutor(2) as pool:
        for part in rows:
            held += [*part.inputs, *part.outputs]  # type: ignore[attr-defined]
            if sum(map(len, held)) >= BATCH:
                waiting.append(pool.submit(tokenizer.encode, held))
                held = []
            if len(waiting) > 3:
                tokens += len(waiting.pop(0).result().tokens)
        waiting.append(pool.submit(tokenizer.encode, held))
        return tokens + sum(len(call.result().tokens) for call in waiting)


def tokenizer_of(options: argparse.Namespace) -> LoadedTokenizer:
    """Load the tokenizer that is asked for."""
    return load_tokenizer(options.tokenizer or str(options.data_dir / "tokenizers" / "qwen2"))


def summary(runs: list[dict[str, object]]) -> dict[str, dict[str, float]]:
    """Medians of each way, and against tokenising in the same repeat."""
    ways = list(dict.fromkeys(str(run["way"]) for run in runs))
    base = [run for run in runs if run["way"] == ways[0]]
    result = {}
    for way in ways:
        own = [run for run in runs if run["way"] == way]
        result[way] = {
            "tokens": float(own[0]["tokens"]),  # type: ignore[arg-type]
            "peak_bytes": max(float(run["peak_bytes"]) for run in own),  # type: ignore[arg-type]
            **{
                f"{kind}_{name}": statistics.median(values)
                for kind in ("seconds", "processor_seconds")
                for name, values in {
                    "median": [float(run[kind]) for run in own],  # type: ignore[arg-type]
                    "ratio": [
                        float(a[kind]) / float(b[kind])  # type: ignore[arg-type]
                        for a, b in zip(own, base, strict=True)
                    ],
                }.items()
            },
        }
    return result


def peak_bytes() -> int:
    """The largest resident set of this process, and of its largest child, added up."""
    unit = 1 if sys.platform == "darwin" else 1024
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(who).ru_maxrss for who in both) * unit


if __name__ == "__main__":
    main()
