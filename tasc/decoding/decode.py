"""The decoding loop. Every method is measured on it, so a speed-up is the method's own.

Sequences draft, verify and end on their own; they share only the forward. A sequence that ends
leaves at once, and the next request takes its place. A single sequence is a batch of one.
"""

from collections import deque
from collections.abc import Collection, Sequence
from functools import partial
from itertools import islice

import torch

from tasc.decoding.beginnings import Beginnings
from tasc.decoding.core.generation import Generation, PhaseTimer, Timeline
from tasc.decoding.core.grammar import FORCED
from tasc.decoding.policy import Batch, Policy
from tasc.decoding.sequence import LiveSequence, Request, Running, TokenCallback
from tasc.errors import InputError
from tasc.models.certified_head import Logits
from tasc.models.packed import native_threads
from tasc.models.target import Target

__all__ = [
    "Engine",
    "Generation",
    "Request",
    "Running",
    "Timeline",
    "TokenCallback",
    "generate_all",
]


def generate_all(
    target: Target,
    requests: Sequence[Request],
    *,
    max_new_tokens: int,
    end_ids: Collection[int] = (),
    budget: int = 12,
    batch_size: int = 1,
    policy: Policy | None = None,
) -> list[Generation]:
    """Decode each request until an end token, a stop or ``max_new_tokens``; return them in order.

    Each step drafts at most ``budget`` nodes per sequence, or fewer by ``policy``, besides those
    that a grammar determines (at most FORCED nodes in all), scores them with the last token in one
    forward, and keeps the verified paths. ``batch_size`` sequences are decoded at a time and share
    the time of a step evenly, so the timelines add up to the time that passed. Raises InputError
    before any work for a prompt that is empty or too long.
    """
    for request in requests:
        _check(target, request, max_new_tokens)
    longest = max((len(request.prompt) for request in requests), default=0)
    widest = max(budget, FORCED) if any(request.grammar for request in requests) else budget
    padding = min(widest, max_new_tokens) + 1 if batch_size > 1 else 0  # after the longest sequence
    with native_threads(target.model):
        engine = Engine(target, end_ids, budget, policy)
        sequences = [engine.submit(request, max_new_tokens) for request in requests]
        engine.begin(longest + max_new_tokens + padding, batch_size)
        if batch_size > 1:  # the longest first: prompts that join together need little padding
            longest_first = sorted(sequences, key=lambda s: len(s.request.prompt), reverse=True)
            engine.waiting = deque(longest_first)
        while engine.busy:
            for sequence in engine.step():
                if sequence.error is not None:
                    raise sequence.error
    return [sequence.result for sequence in sequences]


def _check(target: Target, request: Request, max_new_tokens: int) -> None:
    """Raise InputError for a request that cannot be decoded on ``target``."""
    if max_new_tokens < 1:
        raise InputError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    target.check(request.prompt, max_new_tokens)  # drafts never run past it


class Engine:
    """The loop: sequences that share the forwards of ``target``; they join and leave between steps.

    Call ``begin`` before the first ``step``; requests may be submitted before and after it. Those
    before it may be the first that use ``target.head``, which drops the target's sequences.
    """

    def __init__(
        self,
        target: Target,
        end_ids: Collection[int] = (),
        budget: int = 12,
        policy: Policy | None = None,
        beginnings: Beginnings | None = None,
    ) -> None:
        """Draft at most ``budget`` nodes per sequence and step; ``end_ids`` end outputs.

        ``policy`` may draft fewer; it learns from all sequences. With ``beginnings``, a step reads
        a piece of a long prompt at most.
        """
        self.target, self.ends, self.budget, self.size = target, set(end_ids), budget, 1
        self.policy, self.beginnings = policy or Policy(), beginnings
        self.waiting, self.joining = deque[Running](), list[Running]()
        self.batch = list[LiveSequence]()

    @property
    def live(self) -> list[Running]:
        """The sequences that are decoded, and those whose prompts are being read."""
        return [sequence.output for sequence in self.batch] + self.joining

    def begin(self, capacity: int, size: int = 1) -> None:
        """Plan for ``size`` sequences at a time, of ``capacity`` positions each, drafts included.

        Longer ones make the cache grow. Raises InputError if ``size`` is not positive.
        """
        self.size = size
        self.target.begin(capacity, size)

    @property
    def busy(self) -> bool:
        """Whether a sequence waits or is decoded."""
        return bool(self.waiting or self.batch)

    def submit(self, request: Request, max_new_tokens: int) -> Running:
        """Let a request wait for a place. Raises InputError for one that cannot be decoded."""
        _check(self.target, request, max_new_tokens)
        if request.is_largest:
            _ = self.target.head  # made before the first step: the first use drops sequences
        self.waiting.append(Running(request, max_new_tokens))
        return self.waiting[-1]

    def cancel(self, sequence: Running) -> None:
        """End a sequence between two steps, and free its place; it may have ended before."""
        if sequence in self.waiting:
            self.waiting.remove(sequence)
            sequence.finished = "cancelled"
        elif sequence in self.live:
            sequence.finished = "cancelled"
            self._retire()

    def step(self) -> list[Running]:
        """Let waiting sequences join, or else decode one step; return the sequences that ended."""
        self.joining = [self.waiting.popleft() for _ in range(self._joining())]
        timer = PhaseTimer()
        if self.joining:
            self._join(timer)
        elif self.batch:
            self._step(timer, self.batch, joins=False)
        return self._retire()

    def _joining(self) -> int:
        """Return how many of the waiting sequences join now."""
        free = min(len(self.waiting), self.size - len(self.batch))
        if self.beginnings is None or not free:
            return free
        prompts = [sequence.request.prompt for sequence in islice(self.waiting, free)]
        return self.beginnings.prepare(prompts, beside=bool(self.batch))

    def abandon(self, capacity: int) -> list[Running]:
        """Drop the live sequences after an error in ``step``, return them, and begin again."""
        dropped = self.live
        self.batch, self.joining = [], []
        if self.beginnings is not None:
            if self.beginnings.reading is not None and self.waiting:  # it may be what failed
                dropped.append(self.waiting.popleft())
            self.beginnings.clear()
        self.begin(capacity, self.size)
        return dropped

    def _retire(self) -> list[Running]:
        """Remove the sequences that are done; the last one moves to the free place."""
        batch, done = self.batch, list[Running]()
        for i in reversed([i for i, sequence in enumerate(batch) if sequence.output.finished]):
            self.target.leave(i)
            done.append(batch[i].finish())
            batch[i] = batch[-1]
            batch.pop()
        return done

    def _join(self, timer: PhaseTimer) -> None:
        """Let sequences join the batch, and read their prompts."""
        alone = len(self.joining) == 1 and not self.batch
        joining = [
            LiveSequence(output, self.target, self.ends, alone=alone) for output in self.joining
        ]
        self._step(timer, joining, joins=True)
        self.batch += joining
        self.joining = []

    def _step(self, timer: PhaseTimer, batch: Sequence[LiveSequence], *, joins: bool) -> None:
        """Draft, score, verify, commit and observe once, for all sequences of ``batch``.

        Those that join read their prompts, and draft only if one joins an empty batch.
        """
        target, policy = self.target, self.policy
        drafts = not joins or batch[0].drafts_first
        prompt = len(batch[0].request.prompt) if joins else 0
        plan = policy.plan(Batch(len(batch), prompt)) if drafts else None
        if plan:
            for sequence in batch:
                sequence.draft(plan, self.budget)
        timer.end("draft")
        rows = _logits(target, batch)
        timer.end("forward")
        for sequence, logits in zip(batch, rows, strict=True):
            sequence.verify(logits)
        timer.end("verify")
        if not joins or len(batch[0].tree):
            target.keep([sequence.path for sequence in batch])
        for sequence in batch:
            sequence.commit()
        timer.end("commit")
        for i, sequence in enumerate(batch):
            states = len(rows[i]) + (len(sequence.request.prompt) - 1 if joins else 0)
            hidden = None if target.states is None else target.states[i, :states]
            sequence.observe(hidden, rows[i])
        timer.end("draft")
        if plan:
            committed = [sequence.committed for sequence in batch]
            policy.record(plan.step(committed, timer.forward, timer.total))
            timer.end("draft")
        share = timer.add_prefill if joins else timer.add_step
        share([sequence.output.result.timeline for sequence in batch])
        for sequence in batch:  # the time of the caller's on_tokens is not measured
            sequence.output.count(len(sequence.tree), sequence.committed, joins=joins)


def _forward(target: Target, batch: Sequence[LiveSequence]) -> torch.Tensor:
    """Score the trees after the last tokens, or read the prompts of sequences that join.

    A joining sequence has a tree only if it is decoded alone.
    """
    trees = [(sequence.tree.tokens, sequence.tree.parents) for sequence in batch]
    if batch[0].output.tokens:
        return target.score([sequence.output.tokens[-1] for sequence in batch], trees)
    prompts = [sequence.request.prompt for sequence in batch]
    hidden = any(sequence.needs.hidden_states for sequence in batch)
    if len(batch[0].tree):
        return target.read(prompts[0], trees[0], hidden=hidden)
    return target.join(prompts, hidden=hidden)[:, None]


def _logits(target: Target, batch: Sequence[LiveSequence]) -> list[Logits]:
    """Return the logits after the last token and each node of each sequence.

    The largest ones are enough if nothing reads others.
    """
    forward = partial(_forward, target, batch)
    sizes = [len(sequence.tree) + 1 for sequence in batch]
    head, counts = batch[0].head, [sequence.largest for sequence in batch]
    if head is not None and head.pays and all(counts):
        return head.top(forward, sizes, max(counts))
    return [rows[:size] for rows, size in zip(forward(), sizes, strict=True)]
