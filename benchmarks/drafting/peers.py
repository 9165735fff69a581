"""Our drafters beside transformers' prompt lookup and Arctic's suffix decoding, without a model.

Reference outputs of the test split are simulated, teacher-forced: the prompt's forward commits
the first token, a step the drafted tokens that agree with the output and one more, the end too.
Same tokenizer, split and rows for all.
Usage: python -m benchmarks.drafting.peers --data-dir DIR [--json F]
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

from benchmarks.figures import publish, script, timed
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.core.draft import Draft, chain
from tasc.decoding.drafters import Factory, Resources, parse
from tasc.decoding.drafters.ngram.index import build_index
from tasc.decoding.drafters.ngram.options import Counts
from tasc.decoding.simulate import References, simulate
from tasc.tokenizer.loaded import load_tokenizer

TASKS = {"massive-en": "input", "ud-ewt-pos": "tokens", "medquad": "input"}
BUDGETS = (8, 12, 32, 60)
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
DEPTH = 24  # of Arctic's trees, and tokens of context it is asked with
# Arctic drafts at most FACTOR tokens a matched one; its default, 1, stops far short of the budget,
# and 4 is best for small trees, 60 for large ones. It leaves out what is less likely than LEAST.
FACTORS, LEAST = {"arctic chain": 4.0, "arctic tree": 4.0, "arctic tree, long": 60.0}, 0.0


class Lookup:
    """What a peer that looks into the sequence alone knows: the sequence."""

    def start(self, prompt: np.ndarray) -> None:
        """Begin a sequence."""
        self.sequence = prompt.astype(np.int32)

    def observe(self, tokens: np.ndarray) -> None:
        """Read what was committed."""
        self.sequence = np.concatenate([self.sequence, tokens])


class TransformersLookup(Lookup):
    """transformers' prompt lookup behind our interface."""

    def __init__(self, end: int) -> None:
        """Stop behind ``end``."""
        self.end = end

    def draft(self, max_nodes: int) -> Draft:
        """Ask the peer."""
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


class Arctic:
    """arctic-inference's SuffixDecodingCache, warmed with the corpus, behind our interface.

    What a sequence adds to the shared tree is evicted when the next one starts: each test output is
    replayed many times here, and nobody may have seen it before.
    """

    requests = 1 << 30

    def __init__(self, cache: Any, tree: bool, factor: float) -> None:  # noqa: ANN401 - a peer's class
        """Speculate chains, or trees, from ``cache``."""
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
        """Ask the peer."""
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
        """Tell the peer what was committed."""
        self.cache.add_active_response(self.request, tokens)
        self.context = np.concatenate([self.context, tokens])


def arctic_cache(outputs: Sequence[np.ndarray], end: int) -> Any:  # noqa: ANN401
    """Return a warm cache."""
    from arctic_inference.suffix_decoding import SuffixDecodingCache

    cache = SuffixDecodingCache(max_tree_depth=DEPTH)
    for i, output in enumerate(outputs):
        cache.start_request(i, np.array([], np.int32))
        cache.add_active_response(i, np.append(output, np.int32(end)).astype(np.int32))
        cache.stop_request(i)
    return cache


def main() -> None:
    """Measure all tasks and print the figures as JSON."""
    options = replay_script(__doc__, repeats=3).parse_args()
    figures = {
        "arctic-inference": metadata.version("arctic-inference"),
        "tokenizer": options.tokenizer,
        "rows": options.rows,
        "repeats": options.repeats,
        "results": [row for task in options.task for row in measure(task, options)],
    }
    publish(figures, options.json)


def ours(text: str, known: Sequence[np.ndarray], end: int) -> tuple[Callable[[], Factory], float]:
    """Return what begins a method without the outputs that it has seen, and how long it took.

    Only a method that learns is prepared again, then with the index that was counted before.
    """
    method = parse(text)
    if not getattr(method.options, "adapt", False):
        seconds, factory = timed(lambda: method.prepare(Resources(known, end)))
        return (lambda: factory), seconds
    seconds, index = timed(lambda: build_index(known, end, Counts()))
    return (lambda: method.prepare(Resources((), end, indexes=[index]))), seconds


def replay_script(about: str | None, **values: Any) -> Any:  # noqa: ANN401
    """Return a parser of what simulates drafters on the tasks."""
    parser = script(about, data=True, tokenizer="llama3/tokenizer.model", rows=400, **values)
    parser.add_argument("--task", nargs="+", default=list(TASKS), choices=list(TASKS))
    return parser


def read(task: str, given: argparse.Namespace) -> tuple[list[np.ndarray], References]:
    """Return a task's training outputs, and the first rows of its test split to decode."""
    tokenizer = load_tokenizer(str(given.data_dir / "tokenizers" / given.tokenizer))
    source = Source(str(given.data_dir / task), input_column=TASKS[task])
    known, test = tokenizer.encode(load(source, "train").outputs).split(), load(source, "test")
    sides = [tokenizer.encode(s[: given.rows]).split() for s in (test.prompts, test.outputs)]
    return known, References(sides[0], sides[1], tokenizer.eos_id, max_new_tokens=UNCUT)


def measure(task: str, options: argparse.Namespace) -> list[dict[str, object]]:
    """Simulate every drafter and budget on the first rows of a task's test split."""
    known, references = read(task, options)
    end = references.end
    prepared: dict[str, tuple[Callable[[], Factory], float]] = {}
    for text in OURS:
        prepared[text] = ours(text, known, end)
    prepared["transformers prompt lookup"] = partial(partial, TransformersLookup, end), 0.0
    seconds, cache = timed(lambda: arctic_cache(known, end))
    for name, factor in FACTORS.items():
        prepared[name] = partial(partial, Arctic, cache, "tree" in name, factor), seconds
    rows = []
    for budget in BUDGETS:
        micros: dict[str, list[float]] = {name: [] for name in prepared}
        last = {}
        for _ in range(options.repeats):  # in turn, so that drift hits all alike
            for name, (fresh, _) in prepared.items():
                last[name] = result = simulate(fresh(), references, budget)
                micros[name].append(1e6 * result.draft_seconds / len(result.drafted))
        for name, result in last.items():
            rows.append(
                {
                    "task": task,
                    "drafter": name,
                    "budget": budget,
                    "tokens_per_step": round(result.tokens_per_step, 4),
                    "accepted_by_position": [round(p, 4) for p in result.accepted_by_position[:8]],
                    "drafted_per_step": round(float(result.drafted.mean()), 2),
                    "draft_us": round(statistics.median(micros[name]), 2),
                    "draft_us_all": [round(x, 2) for x in micros[name]],
                    "prepare_seconds": round(prepared[name][1], 3),
                    "corpus_tokens": sum(map(len, known)),
                }
            )
    return rows


if __name__ == "__main__":
    main()
