"""The one decoding loop. Every method is measured on it, so a speed-up is the method's own."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from tasc.errors import InputError
from tasc.models.target import Target
from tasc.spec.draft import Draft
from tasc.spec.processors import Processor, Processors
from tasc.spec.protocols import Drafter, Verifier, reader
from tasc.spec.stopping import Stop
from tasc.spec.verify import greedy

OnTokens = Callable[[np.ndarray], None]


@dataclass
class Timeline:
    """Seconds of one generation by part; ``forward`` counts the target's forwards after prefill.

    ``steps`` holds (draft, forward, verify, commit) of each step. Time in ``on_tokens`` counts
    nowhere: it is the caller's.
    """

    prefill: float = 0.0
    draft: float = 0.0
    forward: float = 0.0
    verify: float = 0.0
    commit: float = 0.0
    steps: list[tuple[float, float, float, float]] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Seconds from the prompt to the last token."""
        return self.prefill + self.draft + self.forward + self.verify + self.commit

    def add(self, draft: float, forward: float, verify: float, commit: float) -> None:
        """Count one step."""
        self.draft += draft
        self.forward += forward
        self.verify += verify
        self.commit += commit
        self.steps.append((draft, forward, verify, commit))


@dataclass
class Generation:
    """The tokens of one sequence and how they came about.

    ``tokens`` (T,) int32 without the prompt, the end token included when it was produced.
    ``drafted[i]`` and ``accepted[i]`` count the nodes proposed and accepted at step i. The first
    token comes from the prefill, the others from steps. ``finish`` is "end" after an end token,
    "stop" where a stop rule cut, "length" at the limit.
    """

    tokens: np.ndarray
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    timeline: Timeline = field(default_factory=Timeline)
    finish: str = "length"

    @property
    def decoding_steps(self) -> int:
        """Target calls that settled tokens, the prefill included."""
        return len(self.accepted) + 1


class Output:
    """The tokens of a sequence so far, and everything that hangs on their end."""

    def __init__(
        self,
        ends: Collection[int],
        stop: Stop | None,
        on_tokens: OnTokens | None,
        adjust: Processors | None,
    ) -> None:
        """Begin with no tokens; ``finish`` is empty until the output ends."""
        self.ends, self.stop, self.on_tokens, self.adjust = set(ends), stop, on_tokens, adjust
        self.tokens: list[int] = []
        self.finish = ""

    def settle(self, tokens: list[int]) -> np.ndarray:
        """Append ``tokens`` up to where the output ends; return what was appended, int32."""
        known = len(self.tokens)
        for i, token in enumerate(tokens):
            if token in self.ends:
                tokens, self.finish = tokens[: i + 1], "end"
                break
        self.tokens += tokens
        kept = None if self.stop is None else self.stop.cut(self.tokens, len(tokens))
        if kept is not None:
            del self.tokens[kept:]
            self.finish = "stop"
        settled = self.tokens[known:]
        if self.adjust is not None:
            self.adjust.extend(settled)
        return np.array(settled, np.int32)

    def hand_over(self, settled: np.ndarray) -> None:
        """Give ``settled`` to whom it is streamed to."""
        if self.on_tokens is not None:
            self.on_tokens(settled)


def generate(
    target: Target,
    drafter: Drafter,
    prompt: np.ndarray,
    *,
    max_new_tokens: int,
    end_ids: Collection[int] = (),
    budget: int = 12,
    verify: Verifier = greedy,
    stop: Stop | None = None,
    on_tokens: OnTokens | None = None,
    processors: Sequence[Processor] = (),
) -> Generation:
    """Decode ``prompt`` (L,) int32 until an end token, a stop or ``max_new_tokens``.

    Each step drafts at most ``budget`` nodes, scores them with the last token in one forward, and
    keeps the verified path. An end token inside an accepted run ends the sequence there, and so
    does ``stop``. ``on_tokens`` is called with the tokens (k,) int32 that each step settles;
    ``processors`` are transformers' logits processors. Raises InputError.
    """
    if max_new_tokens < 1:
        raise InputError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    clock = time.perf_counter
    result = Generation(np.empty(0, np.int32))
    begin = clock()
    reads = reader(drafter)
    # Drafts never run past the last token.
    row = target.prefill(prompt, max_new_tokens, hidden=reads is not None)
    adjust = Processors(processors, prompt, max_new_tokens, row.device) if processors else None
    output = Output(end_ids, stop, on_tokens, adjust)
    path, last = verify(Draft(), row, adjust)
    result.timeline.prefill = clock() - begin
    begin = clock()
    drafter.start(prompt)
    if reads is not None:
        reads.read(target.hidden, row, path)
    settled = output.settle([last])
    drafter.observe(settled)
    result.timeline.draft = clock() - begin
    output.hand_over(settled)
    while not output.finish and len(output.tokens) < max_new_tokens:
        nodes = min(budget, max_new_tokens - len(output.tokens) - 1)
        settled = _step(target, drafter, verify, output, nodes, result)
        output.hand_over(settled)
    result.tokens = np.array(output.tokens, np.int32)
    result.finish = output.finish or "length"
    return result


def _step(
    target: Target,
    drafter: Drafter,
    verify: Verifier,
    output: Output,
    budget: int,
    result: Generation,
) -> np.ndarray:
    """Draft, score, verify and commit once; return the settled tokens (k,) int32."""
    clock = time.perf_counter
    t0 = clock()
    draft = drafter.draft(budget)
    if len(draft) > budget:
        raise InputError(f"the drafter proposed {len(draft)} nodes for a budget of {budget}")
    t1 = clock()
    rows = target.score(output.tokens[-1], draft.tokens, draft.parents)
    t2 = clock()
    path, bonus = verify(draft, rows, output.adjust)
    t3 = clock()
    target.keep(path)
    settled = output.settle([*draft.tokens[path].tolist(), bonus])
    t4 = clock()
    if (reads := reader(drafter)) is not None:
        reads.read(target.hidden, rows, path)
    drafter.observe(settled)
    result.drafted.append(len(draft))
    result.accepted.append(len(settled) - 1)
    result.timeline.add(t1 - t0 + clock() - t4, t2 - t1, t3 - t2, t4 - t3)
    return settled
