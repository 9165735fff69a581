"""Decoding many prompts, several at a time: continuous batching with ragged acceptance.

Each row drafts and accepts on its own; only the forward is shared. A row that is done leaves at
once, and the next prompt takes its place.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tasc.errors import InputError
from tasc.models.batch import BatchTarget
from tasc.spec.decode import Generation, OnTokens, Output, Timeline
from tasc.spec.draft import Draft
from tasc.spec.processors import Processor, Processors
from tasc.spec.protocols import Drafter, Verifier, reader
from tasc.spec.stopping import Stop
from tasc.spec.verify import greedy

NO_PATH = np.empty(0, np.int32)


@dataclass(frozen=True)
class Rules:
    """How one sequence is verified, stopped and streamed; each as in ``decode.generate``."""

    verify: Verifier = greedy
    stop: Stop | None = None
    on_tokens: OnTokens | None = None
    processors: Sequence[Processor] = ()


def generate_batch(
    target: BatchTarget,
    drafters: Sequence[Drafter],
    prompts: Sequence[np.ndarray],
    *,
    max_new_tokens: int,
    end_ids: Collection[int] = (),
    budget: int = 12,
    rules: Sequence[Rules] | None = None,
) -> list[Generation]:
    """Decode ``prompts``, each (L_i,) int32, ``target.size`` at a time, each as ``generate`` would.

    ``drafters`` are one for each prompt, and so are ``rules`` (None: greedy); a row drafts at most
    ``budget`` nodes a step. Returns the generations in the order of the prompts. The time of a step
    is shared out evenly among its rows, so that the timelines of all generations add up to the time
    that passed. Raises InputError before any work for a prompt that is empty or too long.
    """
    if max_new_tokens < 1:
        raise InputError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    rules = [Rules()] * len(prompts) if rules is None else rules
    for name, given in (("drafters", drafters), ("rules", rules)):
        if len(given) != len(prompts):
            raise InputError(f"{len(prompts)} prompts need as many {name}, got {len(given)}")
    for prompt in prompts:
        target.target.check(prompt, max_new_tokens)  # drafts never run past it
    rows = [
        _Row(prompt, drafter, max_new_tokens, end_ids, own, target)
        for prompt, drafter, own in zip(prompts, drafters, rules, strict=True)
    ]
    longest = max((len(p) for p in prompts), default=0)
    watched = any(row.reads is not None for row in rows)
    most = min(budget, max_new_tokens)
    target.begin(longest + max_new_tokens + most + 1, hidden=watched)
    # The longest prompts first: what joins together is then of similar length, with little padding.
    waiting, live = sorted(rows, key=lambda row: len(row.prompt)), list[_Row]()
    while waiting or live:
        if waiting and len(live) < target.size:
            joining = [waiting.pop() for _ in range(min(len(waiting), target.size - len(live)))]
            live += joining
            _join(target, joining)
        else:
            _step(target, live, budget)
        for i in reversed([i for i, row in enumerate(live) if row.done]):
            target.leave(i)
            live[i] = live[-1]
            live.pop()
    return [row.finish() for row in rows]


class _Row:
    """One sequence: its drafter, its output so far, and what decides on it."""

    def __init__(
        self,
        prompt: np.ndarray,
        drafter: Drafter,
        limit: int,
        ends: Collection[int],
        rules: Rules,
        target: BatchTarget,
    ) -> None:
        self.prompt, self.drafter, self.limit, self.rules = prompt, drafter, limit, rules
        self.reads = reader(drafter)
        device, processors = target.target.device, rules.processors
        adjust = Processors(processors, prompt, limit, device) if processors else None
        self.output = Output(ends, rules.stop, rules.on_tokens, adjust)
        self.result = Generation(np.empty(0, np.int32), timeline=Timeline())

    @property
    def done(self) -> bool:
        return bool(self.output.finish) or len(self.output.tokens) >= self.limit

    def draft(self, budget: int) -> Draft:
        return self.drafter.draft(min(budget, self.limit - len(self.output.tokens) - 1))

    def verify(self, draft: Draft, rows: torch.Tensor) -> tuple[np.ndarray, int]:
        return self.rules.verify(draft, rows, self.output.adjust)

    def settle(self, tokens: list[int]) -> np.ndarray:
        """Take what a step brought, up to where the output ends; return what that was."""
        settled = self.output.settle(tokens)
        self.drafter.observe(settled)
        return settled

    def finish(self) -> Generation:
        self.result.tokens = np.array(self.output.tokens, np.int32)
        self.result.finish = self.output.finish or "length"
        return self.result


def _join(target: BatchTarget, rows: Sequence[_Row]) -> None:
    clock = time.perf_counter
    t0 = clock()
    logits = target.join([row.prompt for row in rows])
    first = [row.verify(Draft(), after[None])[1] for row, after in zip(rows, logits, strict=True)]
    t1 = clock()
    settled = []
    for i, (row, token) in enumerate(zip(rows, first, strict=True)):
        row.drafter.start(row.prompt)
        if row.reads is not None and target.states is not None:
            row.reads.read(target.states[i, : len(row.prompt)], logits[i : i + 1], NO_PATH)
        settled.append(row.settle([token]))
    drafting = clock() - t1
    for row in rows:
        row.result.timeline.prefill += (t1 - t0) / len(rows)
        row.result.timeline.draft += drafting / len(rows)
    _hand_over(rows, settled)


def _step(target: BatchTarget, rows: Sequence[_Row], budget: int) -> None:
    clock = time.perf_counter
    t0 = clock()
    drafts = [row.draft(budget) for row in rows]
    t1 = clock()
    last, trees = [row.output.tokens[-1] for row in rows], [(d.tokens, d.parents) for d in drafts]
    logits = target.score(last, trees)
    t2 = clock()
    verified = [
        row.verify(d, own[: len(d) + 1]) for row, d, own in zip(rows, drafts, logits, strict=True)
    ]
    t3 = clock()
    target.keep([path for path, _ in verified])
    t4 = clock()
    settled = []
    for i, (row, draft, (path, bonus)) in enumerate(zip(rows, drafts, verified, strict=True)):
        if row.reads is not None and target.states is not None:
            n = len(draft) + 1
            row.reads.read(target.states[i, :n], logits[i, :n], path)
        settled.append(row.settle([*draft.tokens[path].tolist(), bonus]))
        row.result.drafted.append(len(draft))
        row.result.accepted.append(len(settled[-1]) - 1)
    drafting = t1 - t0 + clock() - t4
    _share(rows, drafting, t2 - t1, t3 - t2, t4 - t3)
    _hand_over(rows, settled)


def _hand_over(rows: Sequence[_Row], settled: Sequence[np.ndarray]) -> None:
    """Stream what a step settled; the time of it counts nowhere."""
    for row, tokens in zip(rows, settled, strict=True):
        row.output.hand_over(tokens)


def _share(rows: Sequence[_Row], *seconds: float) -> None:
    """Enter an equal share of (draft, forward, verify, commit) into the timeline of each row."""
    for row in rows:
        row.result.timeline.add(*(passed / len(rows) for passed in seconds))
