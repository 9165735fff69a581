"""Time the drafts for all requests of a serving engine, between two of its steps, in µs.

Requests of a narrow task are replayed as an engine would run them: a row has one request, commits
the part of its draft that agrees with the reference output and one more token, and gets the next
request when the output ends. The time is that of ``ChainProposer`` alone, in CPU seconds of the
calling thread.
Usage: python -m benchmarks.serving.propose --tokenizer FOLDER --data-dir DIR [--millions 4]
"""

import argparse
import gc
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import publish, script
from benchmarks.growth import repeated
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.ngram.index import build_index
from tasc.decoding.drafters.ngram.options import Counts
from tasc.decoding.policy import Policy
from tasc.models.cost_model import CostModel
from tasc.serving.drafts.proposer import ChainProposer, Sizes
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer, load_tokenizer

POSITIONS = 1024  # maximum length of a sequence
FREE = 0.001  # cost of a token, so low that the policy allows whole drafts


@dataclass(eq=False)
class Running:
    """A running request: its tokens, of which ``done`` are committed, and its draft."""

    tokens: list[int]
    done: int
    draft: list[int] = field(default_factory=list)

    def step(self) -> list[int]:
        """Commit the correct part of the draft and one more token; return them."""
        rest = self.tokens[self.done :]
        agree = 0
        while agree < min(len(self.draft), len(rest) - 1) and self.draft[agree] == rest[agree]:
            agree += 1
        self.done += agree + 1
        return rest[: agree + 1]


def replay(
    made: ChainProposer, requests: Iterator[tuple[np.ndarray, np.ndarray]], rows: int, steps: int
) -> dict[str, Any]:
    """Run ``steps`` steps over endless ``requests``; return the figures per step."""
    tokens = np.zeros((rows, POSITIONS), np.int32)
    running: list[Running | None] = [None] * rows
    times, committed, begun = [], 0, 0
    for _ in range(steps):
        new: list[list[int]] = []
        lengths: list[int] = []
        for row in range(rows):
            request = running[row]
            if request is None:
                prompt, output = next(requests)
                request = running[row] = Running([*prompt.tolist(), *output.tolist()], len(prompt))
                begun += 1
            new.append(request.step())
            lengths.append(request.done)
            tokens[row, : request.done] = request.tokens[: request.done]
        begin = time.thread_time()  # without the time of other processes
        drafts = made.propose(new, lengths, tokens)
        times.append(1e6 * (time.thread_time() - begin))
        committed += sum(map(len, new))
        for row, draft in enumerate(drafts):
            request = running[row]
            assert request
            request.draft = draft
            if request.done == len(request.tokens):
                running[row] = None
    quarter, half, three = statistics.quantiles(times, n=4)
    return {
        "median": half,
        "quartiles": [quarter, three],
        "mean": statistics.fmean(times),
        "tokens_a_row": committed / steps / rows,
        "begun_a_step": begun / steps,
    }


def requests_of(
    data: Path, tokenizer: LoadedTokenizer
) -> tuple[list[tuple[np.ndarray, np.ndarray]], Encoded]:
    """Return prompts and outputs of the test split, and the outputs of the training split."""
    source = Source(str(data))
    asked, known = load(source, "test"), load(source, "train")
    end = np.array([tokenizer.eos_id], np.int32)
    outputs = [np.append(o, end) for o in tokenizer.encode(asked.outputs).split()]
    prompts = tokenizer.encode(asked.prompts).split()
    requests = zip(prompts, outputs, strict=True)
    fit = [(p, o) for p, o in requests if len(p) + len(o) < POSITIONS]
    return fit, tokenizer.encode(known.outputs)


def measure(data: Path, tokenizer: LoadedTokenizer, given: argparse.Namespace) -> dict[str, Any]:
    """Replay the test requests with an index of the training outputs."""
    requests, known = requests_of(data, tokenizer)
    texts = repeated(known, int(given.millions * 1e6)) if given.millions else iter([known])
    outputs = [output for some in texts for output in some.split()]
    index = build_index(outputs, tokenizer.eos_id, Counts())
    found: dict[str, Any] = {"index": {"tokens": index.tokens, "bytes": 8 * len(index.block)}}
    resources = Resources([], tokenizer.eos_id, indexes=[index])
    for rows in given.rows:
        factory = parse("tasc-spec:width=1").prepare(resources)
        sizes = Sizes(given.tokens, POSITIONS, 2 * rows)
        policy = Policy(CostModel.from_option(FREE), assumed=True)
        made = ChainProposer(factory, tokenizer.eos_id, sizes, policy, threads=given.threads)
        endless = cycle(requests)
        gc.collect()
        replay(made, endless, rows, given.steps // 4)  # warms up and stores outputs
        found[str(rows)] = replay(made, endless, rows, given.steps)
    return found


def main() -> None:
    """Measure and print the figures as JSON."""
    parser = script(__doc__, data=True, threads=True, tokenizer=str, steps=1000)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--tokens", type=int, default=8, help="tokens per draft")
    parser.add_argument("--millions", type=float, help="million tokens of the index")
    given = parser.parse_args()
    publish(measure(given.data_dir, load_tokenizer(given.tokenizer), given), given.json)


if __name__ == "__main__":
    main()
