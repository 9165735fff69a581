"""Decoding many prompts, several at a time: continuous batching with ragged acceptance.

Each row drafts and accepts on its own; only the forward is shared. A row that is done leaves at
once, and the next prompt takes its place.
"""

import time
from collections.abc import Collection, Sequence

import numpy as np

from tasc.errors import InputError
from tasc.models.batch import BatchTarget
from tasc.spec.decode import Generation, Timeline
from tasc.spec.draft import Draft
from tasc.spec.protocols import Drafter, Verifier, reader
from tasc.spec.verify import greedy

NO_PATH = np.empty(0, np.int32)


def generate_batch(
    target: BatchTarget,
    drafters: Sequence[Drafter],
    prompts: Sequence[np.ndarray],
    *,
    max_new_tokens: int,
    end_ids: Collection[int] = (),
    budget: int = 12,
    verify: Verifier = greedy,
) -> list[Generation]:
    """Decode ``prompts``, each (L_i,) int32, ``target.size`` at a time, each as ``generate`` would.

    ``drafters`` are one for each prompt; a row drafts at most ``budget`` nodes a step. Returns the
    generations in the order of the prompts. The time of a step is shared out evenly among its
    rows, so that the timelines of all generations add up to the time that passed. Raises
    InputError before any work for a prompt that is empty or too long.
    """
    if max_new_tokens < 1:
        raise InputError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    if len(drafters) != len(prompts):
        raise InputError(f"{len(prompts)} prompts need as many drafters, got {len(drafters)}")
    for prompt in prompts:
        target.target.check(prompt, max_new_tokens + budget)
    rows = [
        _Row(prompt, drafter, max_new_tokens, frozenset(end_ids))
        for prompt, drafter in zip(prompts, drafters, strict=True)
    ]
    longest = max((len(p) for p in prompts), default=0)
    watched = any(row.reads is not None for row in rows)
    target.begin(longest + max_new_tokens + budget + 1, hidden=watched)
    # The longest prompts first: what joins together is then of similar length, with little padding.
    waiting, live = sorted(rows, key=lambda row: len(row.prompt)), list[_Row]()
    while waiting or live:
        if waiting and len(live) < target.size:
            joining = [waiting.pop() for _ in range(min(len(waiting), target.size - len(live)))]
            live += joining
            _join(target, joining, verify)
        else:
            _step(target, live, budget, verify)
        for i in reversed([i for i, row in enumerate(live) if row.done]):
            target.leave(i)
            live[i] = live[-1]
            live.pop()
    return [row.finish() for row in rows]


class _Row:
    """One sequence: its drafter, its tokens so far, and when it ends."""

    def __init__(
        self, prompt: np.ndarray, drafter: Drafter, limit: int, ends: frozenset[int]
    ) -> None:
        self.prompt, self.drafter, self.limit, self.ends = prompt, drafter, limit, ends
        self.reads = reader(drafter)
        self.tokens: list[int] = []
        self.result = Generation(np.empty(0, np.int32), timeline=Timeline())

    @property
    def done(self) -> bool:
        return len(self.tokens) >= self.limit or self.tokens[-1] in self.ends

    def draft(self, budget: int) -> Draft:
        return self.drafter.draft(min(budget, self.limit - len(self.tokens) - 1))

    def settle(self, tokens: list[int]) -> int:
        """Take what a step settled, up to an end token; return how many tokens that were."""
        for i, token in enumerate(tokens):
            if token in self.ends:
                tokens = tokens[: i + 1]
                break
        self.tokens += tokens
        self.drafter.observe(np.array(tokens, np.int32))
        return len(tokens)

    def finish(self) -> Generation:
        self.result.tokens = np.array(self.tokens, np.int32)
        self.result.finish = "end" if self.tokens[-1] in self.ends else "length"
        return self.result


def _join(target: BatchTarget, rows: Sequence[_Row], verify: Verifier) -> None:
    clock = time.perf_counter
    t0 = clock()
    logits = target.join([row.prompt for row in rows])
    first = [verify(Draft(), after[None])[1] for after in logits]
    t1 = clock()
    for i, (row, token) in enumerate(zip(rows, first, strict=True)):
        row.drafter.start(row.prompt)
        if row.reads is not None and target.states is not None:
            row.reads.read(target.states[i, : len(row.prompt)], logits[i : i + 1], NO_PATH)
        row.settle([token])
    drafting = clock() - t1
    for row in rows:
        row.result.timeline.prefill += (t1 - t0) / len(rows)
        row.result.timeline.draft += drafting / len(rows)


def _step(target: BatchTarget, rows: Sequence[_Row], budget: int, verify: Verifier) -> None:
    clock = time.perf_counter
    t0 = clock()
    drafts = [row.draft(budget) for row in rows]
    t1 = clock()
    last, trees = [row.tokens[-1] for row in rows], [(d.tokens, d.parents) for d in drafts]
    logits = target.score(last, trees)
    t2 = clock()
    verified = [verify(d, own[: len(d) + 1]) for d, own in zip(drafts, logits, strict=True)]
    t3 = clock()
    target.keep([path for path, _ in verified])
    t4 = clock()
    for i, (row, draft, (path, bonus)) in enumerate(zip(rows, drafts, verified, strict=True)):
        if row.reads is not None and target.states is not None:
            n = len(draft) + 1
            row.reads.read(target.states[i, :n], logits[i, :n], path)
        settled = row.settle([*draft.tokens[path].tolist(), bonus])
        row.result.drafted.append(len(draft))
        row.result.accepted.append(settled - 1)
    drafting = t1 - t0 + clock() - t4
    _share(rows, drafting, t2 - t1, t3 - t2, t4 - t3)


def _share(rows: Sequence[_Row], *seconds: float) -> None:
    """Enter an equal share of (draft, forward, verify, commit) into the timeline of each row."""
    for row in rows:
        row.result.timeline.add(*(passed / len(rows) for passed in seconds))
