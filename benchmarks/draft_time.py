"""What the time of a draft goes into, over the whole vocabulary and over parts of it.

Each prompt is decoded greedily with every method in turn, so that drift of the machine hits all
alike. A step's draft time is split into the LM head's product, the upkeep of the vocabulary, and
the rest: the head's layer and the tree. What a sequence costs once, the candidates of its prompt,
is told apart. Accepted length counts the bonus token; coverage is the share of settled tokens that
could have been drafted. Usage: python benchmarks/draft_time.py --model FOLDER --draft-head FOLDER
--data-dir DIR [--json FILE]
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import RepetitionPenaltyLogitsProcessor

from tasc.bench.matrix import Loaded
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.data.tokenizer import load_tokenizer
from tasc.environment import environment
from tasc.models.load import load_model
from tasc.models.target import Target
from tasc.spec.decode import Generation, generate
from tasc.spec.drafters import Resources, parse
from tasc.spec.drafters.eagle.drafter import Eagle
from tasc.spec.drafters.eagle.vocabulary import DraftVocabulary

METHODS = (
    "eagle",
    "fr-spec:size=32768",
    "fr-spec:size=8192",
    "microspec",
    "microspec:extension=false",
    "microspec:context=false",
)


class Watched:
    """A draft vocabulary that counts the seconds of its calls, and what it covered."""

    def __init__(self, inner: DraftVocabulary, size: int) -> None:
        """Watch ``inner``, a part of ``size`` tokens."""
        self.inner, self.size = inner, size
        self.seconds: dict[str, float] = defaultdict(float)
        self.settled: list[tuple[Tensor, Tensor | None]] = []

    @property
    def ids(self) -> Tensor | None:
        """See DraftVocabulary.ids."""
        return self.inner.ids

    def _timed(self, part: str, call: Callable[..., Any], *arguments: Tensor) -> Any:  # noqa: ANN401
        begin = time.perf_counter()
        result = call(*arguments)
        self.seconds[part] += time.perf_counter() - begin
        return result

    def start(self, prompt: Tensor, hidden: Tensor) -> None:
        """See DraftVocabulary.start."""
        self._timed("start", self.inner.start, prompt, hidden)

    def logits(self, hidden: Tensor) -> Tensor:
        """See DraftVocabulary.logits."""
        return self._timed("lm_head", self.inner.logits, hidden)  # type: ignore[no-any-return]

    def drafted(self, tokens: Tensor) -> None:
        """See DraftVocabulary.drafted."""
        self._timed("upkeep", self.inner.drafted, tokens)

    def observe(self, tokens: Tensor, rows: Tensor, kept: Tensor) -> None:
        """See DraftVocabulary.observe."""
        ids = self.inner.ids
        self.settled.append((tokens, None if ids is None else ids.clone()))
        self._timed("upkeep", self.inner.observe, tokens, rows, kept)

    def coverage(self) -> tuple[int, int, list[int]]:
        """Return tokens covered, tokens settled, and the active tokens of each step."""
        covered, settled, active = 0, 0, []
        for tokens, ids in self.settled[1:]:  # the first was not drafted
            settled += len(tokens)
            covered += len(tokens) if ids is None else int(torch.isin(tokens, ids).sum())
            active.append(self.size if ids is None else int((ids >= 0).sum()))
        return covered, settled, active


@dataclass
class Cell:
    """One method on one data set: what each prompt came to."""

    done: list[Generation] = field(default_factory=list)
    watched: list[Watched] = field(default_factory=list)


def main() -> None:
    """Measure and print the figures as JSON."""
    options = parse_options()
    torch.set_num_threads(options.threads)
    tokenizer = load_tokenizer(options.model)
    model = load_model(options.model, dtype=options.dtype, device=options.device)
    ours = Loaded("model", Target(model), tokenizer, (tokenizer.eos_id,))
    head = model.get_output_embeddings()
    figures = {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "environment": environment(),
        "threads": options.threads,
        "dtype": options.dtype,
        "parameters": model.num_parameters(),
        "lm_head": list(head.weight.shape),
        "new_tokens": options.new_tokens,
        "repetition_penalty": options.repetition_penalty,
        "tasks": {d.name: measure(ours, d, options) for d in options.data_dir},
    }
    text = json.dumps(figures, indent=2)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")
    print(text)  # noqa: T201 - a script


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft-head", type=Path, required=True)
    parser.add_argument(
        "--data-dir", type=Path, nargs="+", required=True, help="data sets' folders"
    )
    parser.add_argument("--corpus", type=Path, help="its train outputs are what fr-spec counts")
    parser.add_argument("--counts", type=Path, help="instead: token counts in a file")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--prompts", type=int, default=8, help="of each data set")
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument(
        "--repetition-penalty", type=float, default=1.0, help="keeps small models out of loops"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    return parser.parse_args()


def measure(ours: Loaded, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Decode some prompts of the test split in ``folder`` with every method."""
    prompts = ours.encode(load(Source(str(folder)), "test", limit=options.prompts + 1).prompts)
    target, size = ours.target, ours.target.model.get_output_embeddings().weight.shape[0]
    corpus: list[str] = []
    if options.corpus:
        corpus = load(Source(str(options.corpus)), "train", limit=5000).outputs
    resources = Resources(
        ours.encode(corpus) if corpus else [],
        ours.end_ids[0],
        target=target,
        draft_head=options.draft_head,
        token_counts=options.counts,
    )
    methods = [parse(text) for text in options.methods]
    factories = [method.prepare(resources) for method in methods]
    cells = [Cell() for _ in methods]
    given = options.repetition_penalty
    penalty = [] if given == 1 else [RepetitionPenaltyLogitsProcessor(given)]
    for turn, prompt in enumerate(prompts):
        for method, factory, cell in zip(methods, factories, cells, strict=True):
            drafter = factory()
            if not isinstance(drafter, Eagle):
                sys.exit(f"{method.label} has no draft head: this measures those that do")
            watched = drafter.vocabulary = Watched(drafter.vocabulary, size)
            done = generate(
                target,
                drafter,
                prompt,
                max_new_tokens=options.new_tokens if turn else 8,
                end_ids=ours.end_ids,
                budget=method.budget,
                processors=penalty,
            )
            if turn:  # the first prompt warms up
                cell.done.append(done)
                cell.watched.append(watched)
    first = cells[0]
    return {
        "prompt_tokens": float(np.mean([len(p) for p in prompts[1:]])),
        "methods": {
            method.label: describe(cell, first) for method, cell in zip(methods, cells, strict=True)
        },
    }


def describe(cell: Cell, first: Cell) -> dict[str, Any]:
    """Return the figures of a method, and against the first one on the same prompts."""
    counts = [w.coverage() for w in cell.watched]
    covered, settled = sum(c[0] for c in counts), sum(c[1] for c in counts)
    active = [n for c in counts for n in c[2]]
    drafts, against = per_step(cell.done), per_step(first.done)
    lengths, full = accepted_length(cell.done), accepted_length(first.done)
    steps = sum(len(d.accepted) for d in cell.done)
    parts = {p: sum(w.seconds[p] for w in cell.watched) for p in ("lm_head", "upkeep", "start")}
    total = sum(sum(s[0] for s in d.timeline.steps) for d in cell.done)
    ratios = [a / b for a, b in zip(drafts, against, strict=True)]
    return {
        "accepted_length": lengths,
        "accepted_length_of_first": lengths / full,
        "active": float(np.mean(active)),
        "coverage": covered / settled,
        "draft_ms_a_step": 1e3 * total / steps,
        "of_it": {
            "lm_head": parts["lm_head"] / total,
            "upkeep": parts["upkeep"] / total,
        },
        "draft_of_first": {
            "median": float(np.median(ratios)),
            "p10_p90": np.percentile(ratios, [10, 90]).tolist(),
        },
        "draft_of_first_start_included": sum(d.timeline.draft for d in cell.done)
        / sum(d.timeline.draft for d in first.done),
        "start_ms_a_sequence": 1e3 * parts["start"] / len(cell.done),
        "tokens_a_second": sum(len(d.tokens) for d in cell.done)
        / sum(d.timeline.total for d in cell.done),
        "steps": steps,
        "outputs_equal_to_first": sum(
            np.array_equal(a.tokens, b.tokens) for a, b in zip(cell.done, first.done, strict=True)
        ),
        "prompts": len(cell.done),
    }


def per_step(done: Sequence[Generation]) -> list[float]:
    """Return each sequence's mean seconds of draft a step."""
    return [float(np.mean([s[0] for s in d.timeline.steps])) for d in done]


def accepted_length(done: Sequence[Generation]) -> float:
    """Return the tokens a step settles, the bonus token included."""
    return 1 + sum(sum(d.accepted) for d in done) / sum(len(d.accepted) for d in done)


if __name__ == "__main__":
    main()
