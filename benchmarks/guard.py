"""Measure the cost of drafting where it fails and its gain where it works, fixed and adaptive.

Three texts, each compared with autoregressive decoding on the same loop, in alternating runs:
``task``, the model's own outputs on a task; ``random``, uniform tokens of the vocabulary;
``misleading``, frequent tokens that the drafter never proposes. The last two replace the arg-max of
the model, which still runs. ``auto`` keeps one policy for all prompts; ``auto, forgetful`` starts a
new one for each; ``auto, dearer`` and ``auto, cheaper`` start with a cost model in which forwards
over more than one token take three times as long, or a third.
Usage: python -m benchmarks.guard --model FOLDER --data-dir DIR [--json FILE]
"""

import argparse
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.figures import publish, task_script
from benchmarks.task import Task
from tasc.backend.tree import tree_inputs
from tasc.decoding.core.protocols import Drafter
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import ADAPTIVE, DEFAULT_BUDGET, Factory
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.policy import Policy
from tasc.models.cost import measure
from tasc.models.cost_model import CostModel
from tasc.models.inputs import Tree
from tasc.models.target import Target

WRONG = {"auto, dearer": 3.0, "auto, cheaper": 1 / 3}
METHODS = ("autoregressive", "fixed", "auto", "auto, forgetful", *WRONG)
TEXTS = ("task", "random", "misleading")


class Dictated(Target):
    """A target that runs all forwards and returns a given text as arg-max."""

    text: np.ndarray  # (T,), after the prompt

    def check(self, prompt: np.ndarray, room: int) -> None:
        self.prompt_length = len(prompt)
        super().check(prompt, room)

    def join(self, prompts: Sequence[np.ndarray], *, hidden: bool = False) -> torch.Tensor:
        return self._dictate(super().join(prompts, hidden=hidden), np.zeros(1, np.int64))

    def score(self, last: Sequence[int], trees: Sequence[Tree], skipped: int = 0) -> torch.Tensor:
        depths = tree_inputs(trees[0][1])[1]
        at = self.kv_cache.length - self.prompt_length + 1
        return self._dictate(super().score(last, trees, skipped)[0], (at + depths)[skipped:])[None]

    def _dictate(self, rows: torch.Tensor, positions: np.ndarray) -> torch.Tensor:
        tokens = self.text[np.minimum(positions, len(self.text) - 1)].astype(np.int64)
        columns = torch.from_numpy(tokens)[:, None].to(rows.device)
        return rows.scatter(1, columns, torch.finfo(rows.dtype).max)


def main() -> None:
    """Measure and print the figures as JSON."""
    parser = task_script(__doc__, threads=True, prompts=24, new_tokens=128, seed=0)
    parser.add_argument("--texts", nargs="+", choices=TEXTS, default=list(TEXTS))
    parser.add_argument("--methods", nargs="+", choices=METHODS[1:], default=list(METHODS[1:]))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    task = Task.load(options.model, options.data_dir, options.prompts, dtype=options.dtype)
    target, prompts = Target(task.model), task.prompts
    prepare = partial(task.prepare, "tasc-spec", target)
    cost = measure(target, seconds=5.0)
    dictated, vocabulary = Dictated(task.model), int(task.model.config.vocab_size)
    rng = np.random.default_rng(options.seed)
    random = [rng.integers(0, vocabulary, options.new_tokens).astype(np.int32) for _ in prompts]
    wrong = [misleading(prepare()(), task.outputs, p, options.new_tokens, rng) for p in prompts]

    def dictating(texts: Sequence[np.ndarray], at: int) -> Target:
        dictated.text = texts[at]
        return dictated

    measured = {
        "task": (lambda _: target, (task.end,)),
        "random": (lambda i: dictating(random, i), ()),
        "misleading": (lambda i: dictating(wrong, i), ()),
    }
    results = {
        name: compare(speaking, prompts, prepare, cost, options, end)
        for name, (speaking, end) in measured.items()
        if name in options.texts
    }
    figures = {
        "threads": torch.get_num_threads(),
        "dtype": options.dtype,
        "parameters": task.model.num_parameters(),
        "prompts": len(prompts),
        "new_tokens": options.new_tokens,
        "repeats": options.repeats,
        "cost_curve_ms": {k: 1000 * s for k, s in zip(cost.sizes, cost.seconds, strict=True)},
        "fixed_budget": DEFAULT_BUDGET,
        "results": results,
    }
    publish(figures, options.json)


def misleading(
    drafter: Drafter,
    outputs: Sequence[np.ndarray],
    prompt: np.ndarray,
    length: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return a text (length,) int32 whose next token ``drafter`` never proposes.

    It consists of the corpus' most frequent tokens, so that the drafter finds continuations.
    """
    counts = Counter(np.concatenate(outputs).tolist())
    frequent = np.array([token for token, _ in counts.most_common(256)])
    drafter.start(prompt)
    text: list[int] = []
    while len(text) < length:
        draft = drafter.draft(ADAPTIVE)
        guesses = draft.tokens[draft.parents < 0]
        text.append(int(rng.choice(frequent[~np.isin(frequent, guesses)])))
        drafter.observe(np.array(text[-1:], np.int32))
    return np.array(text, np.int32)


def scaled(cost: CostModel, factor: float) -> CostModel:
    """Return ``cost`` with all times but the first multiplied by ``factor``, without a decrease."""
    first, *rest = cost.seconds
    return CostModel(cost.sizes, (first, *(max(first, factor * t) for t in rest)), cost.context)


def compare(
    target: Callable[[int], Target],
    prompts: Sequence[np.ndarray],
    prepare: Callable[[], Factory],
    cost: CostModel,
    options: argparse.Namespace,
    end_ids: Sequence[int] = (),
) -> dict[str, Any]:
    """Decode every prompt with every method in turn; return times relative to autoregressive ones.

    A ratio pairs two consecutive runs on one prompt; the median is over all pairs. Each method has
    its own drafters, new in each repeat, so that they do not know the text.
    """
    methods = (METHODS[0], *options.methods)
    seconds: dict[str, list[list[float]]] = {name: [] for name in methods}
    steps, drafted = Counter[str](), Counter[str]()
    for repeat in range(-1, options.repeats):  # the first one warms up
        shared = {name: Policy(scaled(cost, WRONG.get(name, 1.0))) for name in methods}
        factories = {name: prepare() for name in methods}
        for name in methods:
            seconds[name].append([])
        for i, prompt in enumerate(prompts):
            outputs = []
            for name in methods[:: -1 if repeat % 2 else 1]:
                make: Factory = Autoregressive if name == METHODS[0] else factories[name]
                policy = Policy()
                if name.startswith("auto"):
                    policy = Policy(cost) if name == "auto, forgetful" else shared[name]
                (result,) = generate_all(
                    target(i),
                    [Request(prompt, make)],
                    max_new_tokens=options.new_tokens,
                    end_ids=end_ids,
                    budget=ADAPTIVE if name.startswith("auto") else DEFAULT_BUDGET,
                    policy=policy,
                )
                seconds[name][-1].append(result.timeline.total)
                outputs.append(result.tokens.tolist())
                if repeat >= 0:
                    steps[name] += result.decoding_steps
                    drafted[name] += sum(result.drafted)
            if any(tokens != outputs[0] for tokens in outputs):
                raise SystemExit(f"prompt {i}: the methods' outputs differ")
    plain = np.array(seconds[METHODS[0]][1:])
    runs = options.repeats * len(prompts)
    return {
        name: {
            "ms_per_prompt": 1000 * float(np.mean(seconds[name][1:])),
            "steps_per_prompt": steps[name] / runs,
            "drafted_per_prompt": drafted[name] / runs,
            "time_against_autoregressive": statistics.median(
                (np.array(seconds[name][1:]) / plain).ravel().tolist()
            ),
            "by_repeat": np.median(np.array(seconds[name][1:]) / plain, axis=1).tolist(),
            "totals_by_repeat": (np.sum(seconds[name][1:], axis=1) / plain.sum(axis=1)).tolist(),
            "of_totals": float(np.sum(seconds[name][1:]) / plain.sum()),
        }
        for name in methods
    }


if __name__ == "__main__":
    main()
