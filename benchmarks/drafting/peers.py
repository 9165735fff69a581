"""Compare our drafters with those of transformers, arctic-inference and vLLM, without a model.

Simulates the reference outputs of the test split: the prefill commits the first token, and each
step the drafted tokens that agree with the output and one more, the end token included. All
drafters get the same tokens. ``--chains`` compares chains, which most engines verify, instead of
trees. There each peer runs with several settings and ours with its defaults.
Usage: python -m benchmarks.drafting.peers --data-dir DIR [--chains] [--json F]
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

from benchmarks.figures import publish, script, timed
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.core.draft import Draft, chain
from tasc.decoding.core.protocols import NO_NEEDS
from tasc.decoding.drafters import Factory, Resources, parse
from tasc.decoding.drafters.ngram.index import build_index
from tasc.decoding.drafters.ngram.options import Counts
from tasc.decoding.simulate import References, simulate
from tasc.tokenizer.loaded import load_tokenizer

TASKS = {"massive-en": "input", "ud-ewt-pos": "tokens", "medquad": "input"}
BUDGETS = (8, 12, 32, 60)  # nodes of a tree
LENGTHS = (4, 8, 16)  # tokens of a chain
UNCUT = 1 << 20  # more tokens than any output has
OURS = (
    "tasc-spec",
    "tasc-spec:adapt=false",
    "tasc-spec-paper",
    "corpus",
    "suffix",
    "prompt",
    "ngram-trie",
    "prompt-lookup:chain=0",
)
OUR_CHAINS = ("tasc-spec:width=1", "suffix:width=1")
DEPTH = 24  # of Arctic's trees; also the length of the context that it matches
# Arctic drafts at most FACTOR tokens per matched token. Its default, 1, stops far short of the
# budget; 4 is best for small trees, 60 for large ones. It drops tokens less likely than LEAST.
FACTORS, LEAST = {"arctic chain": 4.0, "arctic tree": 4.0, "arctic tree, long": 60.0}, 0.0
CHAIN_FACTORS = (1.0, 4.0, 60.0)
WINDOWS = ((5, 5), (2, 4), (1, 4))  # vLLM's shortest and longest n-gram; its default comes first
Drafters = dict[str, tuple[Callable[[], Factory], float]]  # by name, with seconds of preparation


class Lookup:
    """A drafter that only reads its own sequence."""

    needs = NO_NEEDS

    def start(self, prompt: np.ndarray) -> None:
        """Begin a sequence."""
        self.sequence = prompt.astype(np.int32)

    def observe(self, tokens: np.ndarray) -> None:
        """Append committed ``tokens`` (T,)."""
        self.sequence = np.concatenate([self.sequence, tokens])


class TransformersLookup(Lookup):
    """Prompt lookup of transformers as a drafter."""

    def __init__(self, end: int) -> None:
        """Stop after the token ``end``."""
        self.end = end

    def draft(self, max_nodes: int) -> Draft:
        """Draft at most ``max_nodes`` tokens."""
        import torch
        from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

        generator = PromptLookupCandidateGenerator(
            eos_token_id=torch.tensor([self.end]),
            num_output_tokens=max_nodes,
            max_matching_ngram_size=2,
            max_length=1 << 30,
        )
        ids = torch.from_numpy(self.sequence.astype(np.int64))[None]
        found = generator.get_candidates(ids)[0][0, len(self.sequence) :]
        return chain(found.numpy().astype(np.int32))


class VllmLookup(Lookup):
    """The n-gram proposer of vLLM (V1, ``ngram_proposer.py``), rewritten from its definition.

    Takes the longest n-gram of ``least`` to ``most`` tokens that ends the sequence and occurs
    earlier, and drafts the tokens that follow its first occurrence.
    """

    def __init__(self, least: int, most: int) -> None:
        """Match n-grams of ``least`` to ``most`` tokens."""
        self.least, self.most = least, most

    def draft(self, max_nodes: int) -> Draft:
        """Draft at most ``max_nodes`` tokens."""
        tokens = self.sequence
        for n in range(min(self.most, len(tokens) - 1), self.least - 1, -1):
            starts = np.arange(len(tokens) - n)  # all but the n-gram itself
            for i in range(n):
                starts = starts[tokens[starts + i] == tokens[len(tokens) - n + i]]
            if len(starts):
                return chain(tokens[starts[0] + n :][:max_nodes].copy())
        return Draft()


class Arctic:
    """SuffixDecodingCache of arctic-inference, filled with the corpus, as a drafter.

    The start of a sequence evicts the previous one from the shared tree: every test output is
    replayed many times, and no drafter may know it.
    """

    requests = 1 << 30
    needs = NO_NEEDS

    def __init__(self, cache: Any, tree: bool, factor: float) -> None:  # noqa: ANN401 - a peer's class
        """Draft chains or trees from ``cache``."""
        self.cache, self.tree, self.factor = cache, tree, factor

    def start(self, prompt: np.ndarray) -> None:
        """Begin a sequence."""
        if Arctic.requests in self.cache.active_requests:
            self.cache.stop_request(Arctic.requests)
            self.cache.evict_cached_response(Arctic.requests)
        Arctic.requests += 1
        self.request = Arctic.requests
        self.context = prompt
        self.cache.start_request(self.request, prompt)

    def draft(self, max_nodes: int) -> Draft:
        """Draft at most ``max_nodes`` tokens."""
        drafted = self.cache.speculate(
            self.request,
            self.context[-DEPTH:],
            max_spec_tokens=max_nodes,
            max_spec_factor=self.factor,
            min_token_prob=LEAST,
            use_tree_spec=self.tree,
        )
        parents = np.array(drafted.parents, np.int32)
        return Draft(np.array(drafted.token_ids, np.int32), parents)

    def observe(self, tokens: np.ndarray) -> None:
        """Append committed ``tokens`` (T,)."""
        self.cache.add_active_response(self.request, tokens)
        self.context = np.concatenate([self.context, tokens])


def arctic_cache(outputs: Sequence[np.ndarray], end: int) -> Any:  # noqa: ANN401
    """Return a cache that contains ``outputs``."""
    from arctic_inference.suffix_decoding import SuffixDecodingCache

    cache = SuffixDecodingCache(max_tree_depth=DEPTH)
    for i, output in enumerate(outputs):
        cache.start_request(i, np.array([], np.int32))
        cache.add_active_response(i, np.append(output, np.int32(end)).astype(np.int32))
        cache.stop_request(i)
    return cache


def main() -> None:
    """Measure all tasks and print the figures as JSON."""
    parser = script(__doc__, data=True, tokenizer="llama3/tokenizer.model", rows=400, repeats=3)
    parser.add_argument("--chains", action="store_true", help="compare chains")
    parser.add_argument("--task", nargs="+", default=list(TASKS), choices=list(TASKS))
    options = parser.parse_args()
    rows = [row for task in options.task for row in measure(task, options)]
    figures = {
        "arctic-inference": metadata.version("arctic-inference"),
        "tokenizer": options.tokenizer,
        "rows": options.rows,
        "repeats": options.repeats,
        **({"cells": list(best_settings(rows))} if options.chains else {}),
        "results": rows,
    }
    publish(figures, options.json)


def ours(text: str, known: Sequence[np.ndarray], end: int) -> tuple[Callable[[], Factory], float]:
    """Return a function that resets a method, and the seconds of its preparation.

    Only a method that learns from outputs is prepared again, each time from the same index.
    """
    method = parse(text)
    if not getattr(method.options, "adapt", False):
        seconds, factory = timed(lambda: method.prepare(Resources(known, end)))
        return (lambda: factory), seconds
    seconds, index = timed(lambda: build_index(known, end, Counts()))
    return (lambda: method.prepare(Resources((), end, indexes=[index]))), seconds


def read(task: str, given: argparse.Namespace) -> tuple[list[np.ndarray], References]:
    """Return a task's training outputs, and the first rows of its test split."""
    tokenizer = load_tokenizer(str(given.data_dir / "tokenizers" / given.tokenizer))
    source = Source(str(given.data_dir / task), input_column=TASKS[task])
    known, test = tokenizer.encode(load(source, "train").outputs).split(), load(source, "test")
    sides = [tokenizer.encode(s[: given.rows]).split() for s in (test.prompts, test.outputs)]
    return known, References(sides[0], sides[1], tokenizer.eos_id, max_new_tokens=UNCUT)


def drafters(known: Sequence[np.ndarray], end: int, chains: bool) -> Drafters:
    """Prepare all drafters of trees, or of chains, from the outputs ``known``."""
    found = {text: ours(text, known, end) for text in (OUR_CHAINS if chains else OURS)}
    seconds, cache = timed(lambda: arctic_cache(known, end))
    factors = {f"arctic chain, factor {f:g}": f for f in CHAIN_FACTORS} if chains else FACTORS
    for name, factor in factors.items():
        found[name] = partial(partial, Arctic, cache, "tree" in name, factor), seconds
    if not chains:
        return found | {
            "transformers prompt lookup": (partial(partial, TransformersLookup, end), 0.0)
        }
    for window in WINDOWS:
        name = "vllm n-gram, {} to {}".format(*window)
        found[name] = partial(partial, VllmLookup, *window), 0.0
    return found


def measure(task: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Simulate every drafter and size of drafts on the first rows of a task's test split."""
    known, references = read(task, options)
    prepared = drafters(known, references.end, options.chains)
    for budget in LENGTHS if options.chains else BUDGETS:
        micros: dict[str, list[float]] = {name: [] for name in prepared}
        last = {}
        for _ in range(options.repeats):  # in turn, so that drift affects all alike
            for name, (fresh, _) in prepared.items():
                last[name] = result = simulate(fresh(), references, budget)
                micros[name].append(1e6 * result.draft_seconds / len(result.drafted))
        for name, result in last.items():
            yield {
                "task": task,
                "drafter": name,
                "budget": budget,
                "tokens_per_step": round(result.tokens_per_step, 4),
                "interval": [round(bound, 4) for bound in result.interval],
                "accepted_by_position": [round(p, 4) for p in result.accepted_by_position[:8]],
                "drafted_per_step": round(float(result.drafted.mean()), 2),
                "draft_us": round(statistics.median(micros[name]), 2),
                "draft_us_all": [round(x, 2) for x in micros[name]],
                "prepare_seconds": round(prepared[name][1], 3),
                "corpus_tokens": sum(map(len, known)),
            }


def best_settings(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a line per task and length: TASC-spec, and each peer with its best setting."""
    for task, tokens in dict.fromkeys((row["task"], row["budget"]) for row in rows):
        rates = {
            row["drafter"]: row["tokens_per_step"]
            for row in rows
            if (row["task"], row["budget"]) == (task, tokens)
        }
        arctic, vllm = (
            max(rate for name, rate in rates.items() if name.startswith(peer))
            for peer in ("arctic", "vllm")
        )
        own = rates[OUR_CHAINS[0]]
        yield {
            "task": task,
            "tokens": tokens,
            "tasc_spec": own,
            "arctic": arctic,
            "vllm": vllm,
            "times_best_peer": round(own / max(arctic, vllm), 4),
        }


if __name__ == "__main__":
    main()
