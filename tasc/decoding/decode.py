"""The one decoding loop. Every method is measured on it, so a speed-up is the method's own.

Sequences draft, are verified and end on their own; only the forward is shared. One that is done
leaves at once, and the next prompt takes its position. A single sequence is a batch of one.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.generation import Generation, Timeline
from tasc.decoding.core.processors import Processor, Processors
from tasc.decoding.core.protocols import (
    Drafter,
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
from tasc.models.target import Target

__all__ = ["Generation", "Request", "Timeline", "TokenCallback", "generate", "generate_all"]

TokenCallback = Callable[[np.ndarray], None]
_NO_PATH = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class Request:
    """One sequence to decode: a prompt (L,) int32, what drafts, and the rules of its output.

    An end token or ``stop`` ends the output, also inside of an accepted run. ``on_tokens`` is
    called with the tokens (k,) int32 that each step commits; ``processors`` are transformers'
    logits processors.
    """

    prompt: np.ndarray
    drafter: Factory
    verify: Verifier = greedy
    stop: Stop | None = None
    on_tokens: TokenCallback | None = None
    processors: Sequence[Processor] = ()


def generate(
    target: Target,
    drafter: Drafter,
    prompt: np.ndarray,
    *,
    max_new_tokens: int,
    end_ids: Collection[int] = (),
    budget: int = 12,
    **rules: Any,  # noqa: ANN401 - checked by Request
) -> Generation:
    """Decode one ``prompt`` (L,) int32; ``rules`` as in ``Request``, the rest as below."""
    request = Request(prompt, lambda: drafter, **rules)
    limits: dict[str, Any] = {"max_new_tokens": max_new_tokens, "end_ids": end_ids}
    return generate_all(target, [request], **limits, budget=budget)[0]


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

    Each step drafts at most ``budget`` nodes for each sequence, scores them with the last token in
    one forward, and keeps the verified paths. ``batch_size`` sequences are decoded at a time; the
    time of a step is shared out evenly among them, so that the timelines of all generations add up
    to the time that passed. Raises InputError before any work for a prompt that is empty or too
    long.
    """
    if max_new_tokens < 1:
        raise InputError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    for request in requests:
        target.check(request.prompt, max_new_tokens)  # drafts never run past it
    longest = max((len(request.prompt) for request in requests), default=0)
    most = min(budget, max_new_tokens) + 1 if batch_size > 1 else 0  # behind the longest sequence
    target.begin(longest + max_new_tokens + most, batch_size)
    waiting = [_Sequence(request, max_new_tokens, end_ids) for request in reversed(requests)]
    every = waiting[::-1]
    if batch_size > 1:  # the longest first: what joins together has little padding then
        waiting.sort(key=lambda sequence: len(sequence.request.prompt))
    live: list[_Sequence] = []
    while waiting or live:
        if waiting and len(live) < batch_size:
            joining = [waiting.pop() for _ in range(min(len(waiting), batch_size - len(live)))]
            live += joining
            _join(target, joining)
        else:
            _step(target, live, budget)
        for i in reversed([i for i, sequence in enumerate(live) if sequence.done]):
            target.leave(i)
            live[i].finish()
            live[i] = live[-1]
            live.pop()
    return [sequence.result for sequence in every]


class _Sequence:
    """One sequence: its drafter, its output so far, and everything that hangs on its end."""

    def __init__(self, request: Request, limit: int, ends: Collection[int]) -> None:
        self.request, self.limit, self.ends = request, limit, set(ends)
        self.tokens: list[int] = []
        self.finished = ""
        self.result = Generation(_NO_PATH)

    def begin(self, device: torch.device) -> None:
        """Make the drafter, when it is this sequence's turn."""
        given = self.request
        self.drafter = given.drafter()
        own = inner(self.drafter)
        self.reads = own if isinstance(own, UsesHiddenStates) else None
        self.learns = own if isinstance(own, UsesLogits) else None
        self.adjust = (
            Processors(given.processors, given.prompt, self.limit, device)
            if given.processors
            else None
        )

    @property
    def done(self) -> bool:
        return bool(self.finished) or len(self.tokens) >= self.limit

    def draft(self, max_nodes: int) -> Draft:
        room = min(max_nodes, self.limit - len(self.tokens) - 1)  # never beyond the last token
        draft = self.drafter.draft(room)
        if len(draft) > room:
            raise InputError(f"the drafter proposed {len(draft)} nodes for a budget of {room}")
        return draft

    def verify(self, draft: Draft, rows: torch.Tensor) -> tuple[np.ndarray, int]:
        return self.request.verify(draft, rows, self.adjust)

    def commit(self, tokens: list[int]) -> np.ndarray:
        """Append ``tokens`` up to where the output ends; return what was appended, int32."""
        known, stop = len(self.tokens), self.request.stop
        for i, token in enumerate(tokens):
            if token in self.ends:
                tokens, self.finished = tokens[: i + 1], "end"
                break
        self.tokens += tokens
        kept = None if stop is None else stop.cut(self.tokens, len(tokens))
        if kept is not None:
            del self.tokens[kept:]
            self.finished = "stop"
        committed = self.tokens[known:]
        if self.adjust is not None:
            self.adjust.extend(committed)
        return np.array(committed, np.int32)

    def observe(self, committed: np.ndarray, draft: Draft, seen: "_Seen") -> None:
        """Show the drafter what a step committed, and of the target's states what it uses."""
        hidden, rows, path = seen
        if self.reads is not None and hidden is not None:
            self.reads.on_hidden_states(hidden, rows, path)
        if self.learns is not None:
            self.learns.on_logits(draft, rows)
        self.drafter.observe(committed)

    def finish(self) -> None:
        self.result.tokens = np.array(self.tokens, np.int32)
        self.result.finish = self.finished or "length"
        if isinstance(own := inner(self.drafter), ReportsSources):
            self.result.sources = own.sources()[: len(self.tokens)]
        del self.drafter, self.reads, self.learns, self.adjust


_Seen = tuple[torch.Tensor | None, torch.Tensor, np.ndarray]


def _join(target: Target, joining: Sequence[_Sequence]) -> None:
    """Read prompts, decide on their first tokens, and begin to draft."""
    clock = time.perf_counter
    for sequence in joining:
        sequence.begin(target.device)
    t0 = clock()
    reads = any(sequence.reads is not None for sequence in joining)
    logits = target.join([sequence.request.prompt for sequence in joining], hidden=reads)
    committed = []
    for i, sequence in enumerate(joining):
        committed.append(sequence.commit([sequence.verify(Draft(), logits[i : i + 1])[1]]))
    t1 = clock()
    for i, (sequence, tokens) in enumerate(zip(joining, committed, strict=True)):
        prompt = sequence.request.prompt
        sequence.drafter.start(prompt)
        seen = _seen(target, i, len(prompt), logits[i : i + 1], _NO_PATH)
        sequence.observe(tokens, Draft(), seen)
    t2 = clock()
    for sequence in joining:
        sequence.result.timeline.prefill += (t1 - t0) / len(joining)
        sequence.result.timeline.draft += (t2 - t1) / len(joining)
    _stream(joining, committed)


def _step(target: Target, live: Sequence[_Sequence], budget: int) -> None:
    """Draft, score, verify and commit once, for all sequences."""
    clock = time.perf_counter
    t0 = clock()
    drafts = [sequence.draft(budget) for sequence in live]
    t1 = clock()
    last = [sequence.tokens[-1] for sequence in live]
    logits = target.score(last, [(draft.tokens, draft.parents) for draft in drafts])
    t2 = clock()
    rows = [own[: len(draft) + 1] for own, draft in zip(logits, drafts, strict=True)]
    verified = [s.verify(d, r) for s, d, r in zip(live, drafts, rows, strict=True)]
    t3 = clock()
    target.keep([path for path, _ in verified])
    committed = [
        sequence.commit([*draft.tokens[path].tolist(), bonus])
        for sequence, draft, (path, bonus) in zip(live, drafts, verified, strict=True)
    ]
    t4 = clock()
    for i, (sequence, tokens) in enumerate(zip(live, committed, strict=True)):
        seen = _seen(target, i, len(rows[i]), rows[i], verified[i][0])
        sequence.observe(tokens, drafts[i], seen)
    t5 = clock()
    for sequence, draft, tokens in zip(live, drafts, committed, strict=True):
        result, n = sequence.result, len(live)
        result.drafted.append(len(draft))
        result.accepted.append(len(tokens) - 1)
        result.timeline.add((t1 - t0 + t5 - t4) / n, (t2 - t1) / n, (t3 - t2) / n, (t4 - t3) / n)
    _stream(live, committed)


def _seen(target: Target, i: int, count: int, rows: torch.Tensor, path: np.ndarray) -> _Seen:
    """Return what the target made of ``count`` tokens of sequence ``i``, states where kept."""
    return None if target.states is None else target.states[i, :count], rows, path


def _stream(live: Sequence[_Sequence], committed: Sequence[np.ndarray]) -> None:
    """Hand over what a step committed; the time of it counts nowhere."""
    for sequence, tokens in zip(live, committed, strict=True):
        if sequence.request.on_tokens is not None:
            sequence.request.on_tokens(tokens)
