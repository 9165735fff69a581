"""Draft heads, EAGLE's and Medusa's, over the whole vocabulary and over parts of it, on some tasks.

Each prompt is decoded with every method in turn, so that drift of the machine hits all alike, and
each output is compared with autoregressive decoding's. Accepted length counts the bonus token;
coverage is the share of settled tokens that the step's draft vocabulary held; the LM head's share
is of the time that drafts take. A weak model that decodes greedily ends in loops, which any
vocabulary covers: ``--repetition-penalty`` keeps it out of them, in every method alike.
Usage: python -m benchmarks.draft_heads --model DIR --draft-head DIR DIR --data-dir DIR [DIR …]
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import RepetitionPenaltyLogitsProcessor

from benchmarks.figures import add_json, publish
from tasc.bench.matrix import Loaded
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.data.tokenizer import load_tokenizer
from tasc.models.load import load_model
from tasc.models.target import Target
from tasc.spec.decode import Generation, generate
from tasc.spec.draft import Draft
from tasc.spec.drafters import Resources, parse
from tasc.spec.drafters.heads.reader import HeadDrafter
from tasc.spec.drafters.heads.vocabulary import DraftVocabulary
from tasc.spec.protocols import Drafter

SIZES = (32768, 16384, 8192, 4096)
METHODS = ["ar", "eagle", *(f"fr-spec:size={size}" for size in SIZES)]
METHODS += ["microspec", "microspec:extension=false", "microspec:context=false"]
METHODS += ["microspec:k_pre=64,k_ver=64"]  # a weak model has more candidates
METHODS += ["microspec:frequent=2048"]  # short prompts do not fill a window
METHODS += ["microspec:k_pre=16,k_ver=16,frequent=2048"]
METHODS += ["medusa", "medusa:size=32768", "medusa:size=4096"]


class TimedHead:
    """A draft vocabulary that counts the seconds of its LM head."""

    def __init__(self, inner: DraftVocabulary) -> None:
        """Count for ``inner``."""
        self.inner, self.seconds = inner, 0.0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Everything else is its own."""
        return getattr(self.inner, name)

    def logits(self, hidden: Tensor) -> Tensor:
        """See DraftVocabulary.logits."""
        begin = time.perf_counter()
        result = self.inner.logits(hidden)
        self.seconds += time.perf_counter() - begin
        return result


@dataclass
class Cell:
    """One method on one task: what each prompt came to, and what its drafts could have said."""

    done: list[Generation] = field(default_factory=list)
    head_seconds: float = 0.0
    covered: int = 0
    settled: int = 0
    active: list[int] = field(default_factory=list)

    def run(self, ours: Loaded, drafter: Drafter, prompt: np.ndarray, **options: Any) -> None:  # noqa: ANN401
        """Decode one prompt. What coverage costs to find out is not timed."""
        if not isinstance(drafter, HeadDrafter):
            self.done.append(generate(ours.target, drafter, prompt, **options))
            return
        timed = drafter.vocabulary = TimedHead(drafter.vocabulary)  # type: ignore[assignment]
        known: Tensor | None = None
        drafted = False

        def draft(budget: int, own: Any = drafter.draft) -> Draft:  # noqa: ANN401
            nonlocal known, drafted
            result: Draft = own(budget)
            drafted = True
            ids = timed.ids
            known = None if ids is None else ids.clone()  # a window's change from step to step
            return result

        def count(tokens: np.ndarray) -> None:
            if known is not None:
                self.covered += int(np.isin(tokens, known.cpu().numpy()).sum())
                self.active.append(int((known >= 0).sum()))
            elif drafted:
                self.covered += len(tokens)
                self.active.append(timed.lm_head.weight.shape[0])
            else:
                return  # the prompt's own next token: nothing was drafted
            self.settled += len(tokens)

        drafter.draft = draft  # type: ignore[method-assign]
        self.done.append(generate(ours.target, drafter, prompt, on_tokens=count, **options))
        self.head_seconds += timed.seconds

    def describe(self, reference: Sequence[Generation]) -> dict[str, Any]:
        """Return the figures; ``reference`` are autoregressive generations of the same prompts."""
        steps = [step for done in self.done for step in done.timeline.steps]
        drafting = sum(step[0] for step in steps)
        accepted = [n for done in self.done for n in done.accepted]
        same = sum(
            a.tokens.tolist() == b.tokens.tolist()
            for a, b in zip(self.done, reference, strict=True)
        )
        return {
            "accepted_length": 1 + float(np.mean(accepted)),
            "active": float(np.mean(self.active)) if self.active else 0.0,
            "coverage": self.covered / self.settled if self.settled else 0.0,
            "draft_ms_a_step": 1e3 * float(np.median([step[0] for step in steps])),
            "draft_ms_a_prompt": 1e3
            * float(
                np.mean([d.timeline.draft - sum(s[0] for s in d.timeline.steps) for d in self.done])
            ),
            "forward_ms_a_step": 1e3 * float(np.median([step[1] for step in steps])),
            "lm_head_share_of_draft": self.head_seconds / drafting if self.settled else 0.0,
            "tokens_a_second": sum(len(d.tokens) for d in self.done)
            / sum(d.timeline.total for d in self.done),
            "prompts": len(self.done),
            "steps": len(steps),
            "equal_to_ar": same,
        }


def main() -> None:
    """Measure, save the figures, and print them as tables."""
    options = parse_options()
    torch.set_num_threads(options.threads)
    tokenizer = load_tokenizer(options.model)
    model = load_model(options.model, dtype="float32")
    ours = Loaded("model", Target(model), tokenizer, (tokenizer.eos_id,))
    corpus = ours.encode(load(Source(path=str(options.corpus)), "train").outputs)
    resources = Resources(
        corpus, tokenizer.eos_id, target=ours.target, draft_heads=options.draft_head
    )
    figures: dict[str, Any] = {
        "threads": options.threads,
        "parameters": model.num_parameters(),
        "lm_head": list(model.get_output_embeddings().weight.shape),
        "corpus_tokens": sum(len(output) for output in corpus),
        "corpus_distinct": len(np.unique(np.concatenate(corpus))),
        "tasks": {},
    }
    for path in options.data_dir:
        figures["tasks"][path.name] = rows = measure(ours, resources, path, options)
        print(table(path.name, rows), flush=True)  # noqa: T201 - a script
        publish(figures, options.json, quiet=True)  # whole after each task


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft-head", type=Path, nargs="+", required=True)
    parser.add_argument("--data-dir", type=Path, nargs="+", required=True)
    parser.add_argument("--corpus", type=Path, required=True, help="its outputs rank tokens")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--prompts", type=int, default=8, help="of each folder")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--repetition-penalty", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    add_json(parser)
    return parser.parse_args()


def measure(
    ours: Loaded, resources: Resources, folder: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Decode prompts spread over the test split in ``folder`` with every method."""
    texts = load(Source(path=str(folder)), "test").prompts
    prompts = ours.encode(
        [texts[i * len(texts) // options.prompts] for i in range(options.prompts)]
    )
    methods = [parse(text) for text in options.methods]
    factories = [method.prepare(resources) for method in methods]
    cells = [Cell() for _ in methods]
    penalty = options.repetition_penalty
    common: dict[str, Any] = {
        "end_ids": ours.end_ids,
        "processors": [RepetitionPenaltyLogitsProcessor(penalty)] if penalty != 1 else [],
    }
    for method, factory in zip(methods, factories, strict=True):  # warms up
        generate(ours.target, factory(), prompts[0], max_new_tokens=8, budget=method.budget)
    for prompt in prompts:
        for method, factory, cell in zip(methods, factories, cells, strict=True):
            limits = {"max_new_tokens": options.new_tokens, "budget": method.budget}
            cell.run(ours, factory(), prompt, **common, **limits)
    return {
        method.label: cell.describe(cells[0].done)
        for method, cell in zip(methods, cells, strict=True)
    }


def table(name: str, rows: dict[str, dict[str, Any]]) -> str:
    """Return one task's rows as Markdown."""
    heads = (
        "accepted length | active tokens | coverage | draft ms | LM head of it | ms a prompt | "
        "tokens/s | equal"
    )
    lines = [f"| {name} | {heads} |", "|---" * 9 + "|"]
    for method, row in rows.items():
        lines.append(
            f"| {method} | {row['accepted_length']:.2f} | {row['active']:,.0f} | "
            f"{row['coverage']:.1%} | {row['draft_ms_a_step']:.1f} | "
            f"{row['lm_head_share_of_draft']:.0%} | {row['draft_ms_a_prompt']:.0f} | "
            f"{row['tokens_a_second']:.1f} | "
            f"{row['equal_to_ar']}/{row['prompts']} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
