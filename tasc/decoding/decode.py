"""The decoding loop. Every method is measured on it, so a speed-up is the method's own.

Sequences draft, verify and end on their own; they share only the forward. A sequence that ends
leaves at once, and the next request takes its place. A single sequence is a batch of one.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch

from tasc.decoding.beginnings import Beginnings
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.generation import Generation, PhaseTimer, Timeline
from tasc.decoding.core.grammar import FORCED, Grammar, Masks
from tasc.decoding.core.processors import Processor, Processors
from tasc.decoding.core.protocols import (
    Factory,
    ReportsSources,
    UsesHiddenStates,
    UsesLogits,
    Verifier,
    inner,
)
from tasc.decoding.core.stopping import Stop
from tasc.decoding.verify import greedy
from tasc.errors import InputError
from tasc.models.certified_head import Logits, TopLogits
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

TokenCallback = Callable[[np.ndarray], None]
# (tokens (k,) int32 of a step, the logits (k, V) that decided on each of them)
LogitsCallback = Callable[[np.ndarray, torch.Tensor], None]


@dataclass(frozen=True, eq=False)
class Request:
    """One sequence to decode: a prompt (L,) int32, its drafter, and the rules of its output.

    An end token or ``stop`` ends the output, even inside an accepted draft. ``on_tokens`` is called
    with the tokens (k,) int32 that each step commits. ``processors`` are transformers' logits
    processors. ``grammar`` allows only tokens that continue a valid output; an output that cannot
    go on ends, with an end token if there is one. ``on_logits`` is called with the same tokens
    before ``on_tokens``, and with the model's logits, which nothing has changed.
    """

    prompt: np.ndarray
    drafter: Factory
    verify: Verifier = greedy
    stop: Stop | None = None
    on_tokens: TokenCallback | None = None
    processors: Sequence[Processor] = ()
    grammar: Grammar | None = None
    on_logits: LogitsCallback | None = None


def generate_all(
    target: Target,
    requests: Sequence[Request],
    *,
    max_new_tokens: int,
    end_ids: Collection[int] = (),
    budget: int = 12,
    batch_size: int = 1,
) -> list[Generation]:
    """Decode each request until an end token, a stop or ``max_new_tokens``; return them in order.

    Each step drafts at most ``budget`` nodes per sequence, besides those that a grammar determines
    (at most FORCED nodes in all), scores them with the last token in one forward, and keeps the
    verified paths. ``batch_size`` sequences are decoded at a time and share the time of a step
    evenly, so the timelines add up to the time that passed. Raises InputError before any work for a
    prompt that is empty or too long.
    """
    for request in requests:
        _check(target, request, max_new_tokens)
    longest = max((len(request.prompt) for request in requests), default=0)
    widest = max(budget, FORCED) if any(request.grammar for request in requests) else budget
    padding = min(widest, max_new_tokens) + 1 if batch_size > 1 else 0  # after the longest sequence
    with native_threads(target.model):
        engine = Engine(target, end_ids, budget)
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
        beginnings: Beginnings | None = None,
    ) -> None:
        """Draft at most ``budget`` nodes per sequence and step; ``end_ids`` end outputs.

        With ``beginnings``, a step reads a piece of a long prompt at most.
        """
        self.target, self.ends, self.budget, self.size = target, set(end_ids), budget, 1
        self.beginnings = beginnings
        self.waiting, self.live = deque[Running](), list[Running]()

    def begin(self, capacity: int, size: int = 1) -> None:
        """Plan for ``size`` sequences at a time, of ``capacity`` positions each, drafts included.

        Longer ones make the cache grow. Raises InputError if ``size`` is not positive.
        """
        self.size = size
        self.target.begin(capacity, size)

    @property
    def busy(self) -> bool:
        """Whether a sequence waits or is decoded."""
        return bool(self.waiting or self.live)

    def submit(self, request: Request, max_new_tokens: int) -> "Running":
        """Let a request wait for a place. Raises InputError for one that cannot be decoded."""
        _check(self.target, request, max_new_tokens)
        self.waiting.append(Running(request, self.target, max_new_tokens, self.ends))
        return self.waiting[-1]

    def cancel(self, sequence: "Running") -> None:
        """End a sequence between two steps, and free its place; it may have ended before."""
        if sequence in self.waiting:
            self.waiting.remove(sequence)
            sequence.finished = "cancelled"
        elif sequence in self.live:
            sequence.finished = "cancelled"
            self._retire()

    def step(self) -> "list[Running]":
        """Let waiting sequences join, or else decode one step; return the sequences that ended."""
        joining = [self.waiting.popleft() for _ in range(self._joining())]
        alone = len(joining) == 1 and not self.live
        self.live += joining
        if self.live:
            _step(self.target, joining or self.live, self.budget, alone=alone)
        return self._retire()

    def _joining(self) -> int:
        """Return how many of the waiting sequences join now."""
        free = min(len(self.waiting), self.size - len(self.live))
        if self.beginnings is None or not free:
            return free
        prompts = [sequence.request.prompt for sequence in islice(self.waiting, free)]
        return self.beginnings.prepare(prompts, beside=bool(self.live))

    def abandon(self, capacity: int) -> "list[Running]":
        """Drop the live sequences after an error in ``step``, return them, and begin again."""
        dropped, self.live = self.live, []
        if self.beginnings is not None:
            if self.beginnings.reading is not None and self.waiting:  # it may be what failed
                dropped.append(self.waiting.popleft())
            self.beginnings.clear()
        self.begin(capacity, self.size)
        return dropped

    def _retire(self) -> "list[Running]":
        """Remove the sequences that are done; the last one moves to the free place."""
        live, done = self.live, list[Running]()
        for i in reversed([i for i, sequence in enumerate(live) if sequence.finished]):
            self.target.leave(i)
            live[i].finish()
            done.append(live[i])
            live[i] = live[-1]
            live.pop()
        return done


class Running:
    """One sequence: its drafter, its output so far, and the rules that end it.

    Attributes:
        finished: how it ended: as in ``Generation.finish``, "cancelled" or "error"; else "".
        error: why no token could follow, such as a grammar that is too complex.
        result: complete once it is ``finished``.
        drafted, accepted: nodes so far, also of a draft that was scored with the prompt.
    """

    def __init__(self, request: Request, target: Target, limit: int, ends: set[int]) -> None:
        self.request, self.target, self.limit, self.ends = request, target, limit, ends
        largest = request.verify is greedy and not request.processors and request.grammar is None
        self.head = target.head if largest else None  # the largest logit of a state decides
        self.tokens: list[int] = []
        self.finished = ""
        self.error: InputError | None = None
        self.drafted = self.accepted = 0
        self.result = Generation(np.empty(0, np.int32))

    def begin(self, *, alone: bool) -> None:
        """Make and start the drafter when the sequence joins the batch, perhaps ``alone`` in it."""
        request = self.request
        self.drafter = request.drafter()
        own = inner(self.drafter)
        self.uses_hidden_states = own if isinstance(own, UsesHiddenStates) else None
        self.uses_logits = own if isinstance(own, UsesLogits) else None
        read = 1 if self.uses_logits is None else getattr(own, "top_logits", 0)
        reads_all = self.uses_hidden_states is not None or self.head is None
        reads_all = reads_all or request.on_logits is not None
        self.largest = 0 if reads_all else read  # logits that it reads of a row; 0: all
        self.masks = None if request.grammar is None else Masks(request.grammar)
        self.adjust: Processors | Masks | None = self.masks
        if request.processors:
            given = request.processors, request.prompt, self.limit, self.target.device
            self.adjust = Processors(*given, self.masks)
        drafts_first = getattr(own, "drafts_first", self.uses_hidden_states is None)
        self.drafts_first = drafts_first and alone and self.target.can_read(request.prompt)
        self.drafter.start(request.prompt)

    def draft(self, max_nodes: int) -> None:
        draft = self._propose(max_nodes) if self.tokens or self.drafts_first else Draft()
        self.tree = draft.best_chain() if self.target.chains_only else draft

    def _propose(self, max_nodes: int) -> Draft:
        room = self.limit - len(self.tokens) - 1  # the bonus token comes last
        max_nodes = min(max_nodes, room)
        draft = self.drafter.draft(max_nodes)
        most = max_nodes if self.masks is None else max(max_nodes, FORCED)
        if len(draft) > most:
            raise InputError(f"the drafter proposed {len(draft)} nodes for a budget of {max_nodes}")
        if len(draft) > room:
            draft = draft.subtree(np.arange(room, dtype=np.int32))
        return draft

    def verify(self, rows: Logits) -> None:
        """Find the accepted path and the bonus token; an error ends this sequence only."""
        if isinstance(rows, TopLogits):
            self.path, self.bonus = greedy(self.tree, rows)
            return
        try:
            self.path, self.bonus = self.request.verify(self.tree, rows, self.adjust)
        except InputError as error:
            self.path, self.bonus, self.error = np.empty(0, np.int32), 0, error

    def commit(self) -> None:
        """Append the verified tokens up to where the output ends."""
        before = len(self.tokens)
        self._append([*self.tree.tokens[self.path].tolist(), self.bonus])
        committed = self.tokens[before:]
        self.committed = np.array(committed, np.int32)
        if self.error is not None:
            self.finished = "error"
            return
        if self.adjust is not None:
            self.adjust.extend(committed)
        if self.masks is not None and not self.ends and self.masks.complete:
            self.finished = self.finished or "stop"
        if len(self.tokens) >= self.limit:
            self.finished = self.finished or "length"

    def _append(self, tokens: list[int]) -> None:
        for i, token in enumerate(tokens):
            if token in self.ends:
                tokens, self.finished = tokens[: i + 1], "end"
                break
        self.tokens += tokens
        stop = self.request.stop
        length = None if stop is None else stop.cut(self.tokens, len(tokens))
        if length is not None:
            del self.tokens[length:]
            self.finished = "stop"

    def observe(self, hidden: torch.Tensor | None, rows: Logits) -> None:
        """Pass on what the drafter uses, in the shapes of ``UsesHiddenStates``, and the logits."""
        if self.request.on_logits is not None and self.error is None:
            assert isinstance(rows, torch.Tensor)
            decided = [0, *(self.path + 1).tolist()][: len(self.committed)]
            self.request.on_logits(self.committed, rows[decided])
        if self.uses_hidden_states is not None and hidden is not None:
            assert isinstance(rows, torch.Tensor)
            self.uses_hidden_states.on_hidden_states(hidden, rows, self.path)
        if self.uses_logits is not None:
            self.uses_logits.on_logits(self.tree, rows)
        self.drafter.observe(self.committed)

    def record(self, *, joins: bool) -> None:
        """Count the step in the result, and pass its tokens to the caller."""
        if joins:
            self.result.prefilled = len(self.committed)
        else:
            self.result.drafted.append(len(self.tree))
            self.result.accepted.append(len(self.committed) - 1)
        self.drafted += len(self.tree)
        self.accepted += len(self.committed) - 1
        if self.request.on_tokens is not None and self.error is None:
            self.request.on_tokens(self.committed)

    def finish(self) -> None:
        self.result.tokens = np.array(self.tokens, np.int32)
        self.result.finish = self.finished
        if isinstance(own := inner(self.drafter), ReportsSources):
            self.result.sources = own.sources()[: len(self.tokens)]
        del self.drafter, self.uses_hidden_states, self.uses_logits, self.adjust, self.masks
        del self.tree


def _step(
    target: Target, sequences: Sequence[Running], max_nodes: int, *, alone: bool = False
) -> None:
    """Draft, score, verify, commit and observe once, for all ``sequences``.

    Sequences without output join, and read their prompts; one may join ``alone``, an empty batch.
    """
    joins, timer = not sequences[0].tokens, PhaseTimer()
    if joins:
        for sequence in sequences:
            sequence.begin(alone=alone)
    for sequence in sequences:
        sequence.draft(max_nodes)
    timer.end("draft")
    rows = _logits(target, sequences)
    timer.end("forward")
    for sequence, own in zip(sequences, rows, strict=True):
        sequence.verify(own)
    timer.end("verify")
    if not joins or len(sequences[0].tree):
        target.keep([sequence.path for sequence in sequences])
    for sequence in sequences:
        sequence.commit()
    timer.end("commit")
    for i, sequence in enumerate(sequences):
        states = len(rows[i]) + (len(sequence.request.prompt) - 1 if joins else 0)
        hidden = None if target.states is None else target.states[i, :states]
        sequence.observe(hidden, rows[i])
    timer.end("draft")
    share = timer.add_prefill if joins else timer.add_step
    share([sequence.result.timeline for sequence in sequences])
    for sequence in sequences:  # the time of the caller's on_tokens is not measured
        sequence.record(joins=joins)


def _forward(target: Target, sequences: Sequence[Running]) -> torch.Tensor:
    """Score the trees after the last tokens, or read the prompts of sequences that join.

    A joining sequence has a tree only if it is decoded alone.
    """
    trees = [(sequence.tree.tokens, sequence.tree.parents) for sequence in sequences]
    if sequences[0].tokens:
        return target.score([sequence.tokens[-1] for sequence in sequences], trees)
    prompts = [sequence.request.prompt for sequence in sequences]
    hidden = any(sequence.uses_hidden_states is not None for sequence in sequences)
    if len(trees[0][0]):
        return target.read(prompts[0], trees[0], hidden=hidden)
    return target.join(prompts, hidden=hidden)[:, None]


def _logits(target: Target, sequences: Sequence[Running]) -> list[Logits]:
    """Return the logits after the last token and each node of each sequence.

    The largest ones are enough if nothing reads others.
    """
    forward = partial(_forward, target, sequences)
    sizes = [len(sequence.tree) + 1 for sequence in sequences]
    head, counts = sequences[0].head, [sequence.largest for sequence in sequences]
    if head is not None and head.pays and all(counts):
        return head.top(forward, sizes, max(counts))
    return [own[:size] for own, size in zip(forward(), sizes, strict=True)]
