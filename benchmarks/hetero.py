"""Compare drafting with another vocabulary with transformers' universal assisted generation.

All ways decode every prompt in turn: our autoregressive loop, the five algorithms for two
vocabularies (``standard``, which needs one vocabulary, uses the target as its own drafter),
transformers' generate, and its generate with assistant_model, tokenizer and assistant_tokenizer
(SLEM when greedy, TLI when sampling). Greedy outputs are compared with autoregressive ones.
Usage: python -m benchmarks.hetero --target DIR --draft DIR --stories FILE [--prompts 20]
[--json FILE], or make bench-hetero.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from benchmarks.figures import publish, script, timed
from benchmarks.task import by_transformers
from tasc.decoding.core.resources import DraftSource
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import generate
from tasc.decoding.drafters import Factory, Resources, parse
from tasc.decoding.drafters.hetero.source import load_draft
from tasc.decoding.library import chosen
from tasc.models.load import load_model
from tasc.models.static import target_from_model
from tasc.models.target import Target
from tasc.tokenizer.loaded import load_tokenizer

METHODS = ("ar", "slem", "tli", "union", "slrs", "slrs:floor=0", "standard")
WORDS = 12  # of a story, as its prompt
Result = tuple[np.ndarray, int, float]  # tokens, target forwards, seconds


@dataclass
class Way:
    """A way to decode, with its results by prompt."""

    name: str
    decode: Callable[[int], Result]
    done: list[Result] = field(default_factory=list)
    failed: str = ""

    def go(self, i: int) -> None:
        """Decode prompt ``i``; transformers may fail and is then left out, our methods may not."""
        if self.failed:
            return
        try:
            self.done.append(self.decode(i))
        except IndexError as error:
            if not self.name.startswith("transformers"):
                raise
            self.failed = f"prompt {i}: {error}"


def main() -> None:
    """Measure greedy decoding and sampling, and print the figures as JSON."""
    parser = script(
        __doc__,
        threads=True,
        target=str,
        draft=str,
        stories=Path,
        prompts=20,
        new_tokens=64,
        budget=8,
        temperature=1.0,
    )
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--modes", nargs="+", default=["greedy", "sampling"])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    every = {"greedy": None, "sampling": Sampling(options.temperature, seed=1)}
    results = {name: measure(options, every[name]) for name in options.modes}
    publish({"threads": options.threads, "results": results}, options.json)


def measure(options: argparse.Namespace, sampling: Sampling | None) -> dict[str, Any]:
    """Decode all prompts in all ways; return the figures by way."""
    tokenizer, draft = load_tokenizer(options.target), load_draft(options.draft)
    model = load_model(options.target, "float32")
    paragraphs = options.stories.read_text(encoding="utf-8").split("\n\n")
    openings = [" ".join(p.split()[:WORDS]) for p in paragraphs if p.startswith(("Once", "One"))]
    prompts = [tokenizer.encode([text]).tokens for text in openings[: options.prompts]]
    resources = Resources(
        [], tokenizer.eos_id, target=Target(model), tokenizer=tokenizer, sampling=sampling
    )
    ways = []
    for text in options.methods:
        own = DraftSource(tokenizer, model) if text.startswith("standard") else draft
        factory = parse(text).prepare(replace(resources, draft=own) if text != "ar" else resources)
        rule = "sampled" if text.startswith(("slem", "ar")) else "rejection"
        ways.append(Way(text, partial(ours, model, factory, rule, prompts, options, sampling)))
    for name, assistant in (("transformers", False), ("transformers assisted", True)):
        ways.append(Way(name, partial(theirs, model, assistant, prompts, options, sampling)))
    for i in (0, *range(len(prompts))):  # the first one warms up
        for way in ways:
            way.go(i)
    for way in ways:
        del way.done[:1]
    return {way.name: figures_of(way, ways[0], sampling) for way in ways}


def ours(
    model: PreTrainedModel,
    factory: Factory,
    rule: str,
    prompts: list[np.ndarray],
    options: argparse.Namespace,
    sampling: Sampling | None,
    i: int,
) -> Result:
    """Decode prompt ``i`` with our loop."""
    with target_from_model(model) as target:
        seconds, done = timed(
            lambda: generate(
                target,
                factory(),
                prompts[i],
                max_new_tokens=options.new_tokens,
                end_ids=(int(model.config.eos_token_id),),
                budget=options.budget,
                verify=chosen(rule, sampling, i),
            )
        )
        return done.tokens, done.decoding_steps, seconds


def theirs(
    model: PreTrainedModel,
    assistant: bool,
    prompts: list[np.ndarray],
    options: argparse.Namespace,
    sampling: Sampling | None,
    i: int,
) -> Result:
    """Decode prompt ``i`` with transformers' generate, with or without an assistant."""
    calls = []
    counter = model.register_forward_hook(lambda *_: calls.append(1))
    extra: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    if sampling is not None:
        torch.manual_seed(i)
        settings = {
            "do_sample": True,
            "temperature": sampling.temperature,
            "top_k": 0,
            "top_p": 1.0,
        }
    if assistant:  # a new one each time: when sampling, transformers prunes its LM head for good
        extra = {
            "assistant_model": load_model(options.draft, "float32"),
            "tokenizer": wrapped(options.target),
            "assistant_tokenizer": wrapped(options.draft),
        }
    limits = {"new_tokens": options.new_tokens, "end": int(model.config.eos_token_id)}
    try:
        seconds, found = timed(
            lambda: by_transformers(
                model, prompts[i : i + 1], 1, **limits, settings=settings, **extra
            )
        )
    finally:
        counter.remove()
    return np.array(found[0], np.int32), len(calls), seconds


@cache
def wrapped(folder: str) -> PreTrainedTokenizerFast:
    """Return a folder's tokenizer as a transformers object."""
    found: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    return found


def figures_of(way: Way, baseline: Way, sampling: Sampling | None) -> dict[str, Any]:
    """Return tokens per target forward, milliseconds per token, and the speed-up."""
    if way.failed:
        return {"failed": way.failed}
    pace, base = (np.array([s / len(t) for t, _, s in one.done]) for one in (way, baseline))
    found: dict[str, Any] = {
        "tokens_per_forward": sum(len(t) for t, _, _ in way.done)
        / sum(forwards for _, forwards, _ in way.done),
        "ms_per_token": float(1000 * np.median(pace)),
        "speed": float(np.median(base / pace)),
        "speed_p10_p90": np.percentile(base / pace, [10, 90]).tolist(),
    }
    if sampling is None:
        pairs = zip(way.done, baseline.done, strict=True)
        found["identical"] = sum(np.array_equal(a, b) for (a, *_), (b, *_) in pairs)
        found["of"] = len(way.done)
    return found


if __name__ == "__main__":
    main()
