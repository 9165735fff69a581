"""One sequence of the decoding loop: what was requested, and how far it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.generation import Generation
from tasc.decoding.core.grammar import FORCED, Grammar, Masks
from tasc.decoding.core.processors import Processor, Processors
from tasc.decoding.core.protocols import (
    Factory,
    ReportsSources,
    UsesHiddenStates,
    UsesLogits,
    Verifier,
)
from tasc.decoding.core.stopping import Stop
from tasc.decoding.policy import Plan
from tasc.decoding.verify import greedy
from tasc.errors import InputError
from tasc.models.certified_head import CertifiedHead, Logits, TopLogits
from tasc.models.target import Target

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

    @property
    def is_largest(self) -> bool:
        """Whether the largest logit of a state decides its token."""
        return self.verify is greedy and not self.processors and self.grammar is None


class Running:
    """A request that waits, is decoded, or has ended, and its output so far.

    Attributes:
        tokens: of the output so far.
        finished: how it ended: as in ``Generation.finish``, "cancelled" or "error"; else "".
        error: why no token could follow, such as a grammar that is too complex.
        result: complete once it is ``finished``.
        drafted, accepted: nodes so far, also of a draft that was scored with the prompt.
    """

    def __init__(self, request: Request, limit: int) -> None:
        """Begin with no output; it ends after ``limit`` tokens."""
        self.request, self.limit = request, limit
        self.tokens: list[int] = []
        self.finished = ""
        self.error: InputError | None = None
        self.drafted = self.accepted = 0
        self.result = Generation(np.empty(0, np.int32))

    @property
    def room(self) -> int:
        """Tokens that a draft may have: the bonus token comes last."""
        return self.limit - len(self.tokens) - 1

    def append(self, tokens: list[int], ends: set[int]) -> list[int]:
        """Append ``tokens`` up to where the output ends; return what became of them."""
        before = len(self.tokens)
        for i, token in enumerate(tokens):
            if token in ends:
                tokens, self.finished = tokens[: i + 1], "end"
                break
        self.tokens += tokens
        stop = self.request.stop
        length = None if stop is None else stop.cut(self.tokens, len(tokens))
        if length is not None:
            del self.tokens[length:]
            self.finished = "stop"
        return self.tokens[before:]

    def count(self, drafted: int, committed: np.ndarray, *, joins: bool) -> None:
        """Count a step in the result, and pass its tokens (k,) int32 to the caller."""
        if joins:
            self.result.prefilled = len(committed)
        else:
            self.result.drafted.append(drafted)
            self.result.accepted.append(len(committed) - 1)
        self.drafted += drafted
        self.accepted += len(committed) - 1
        if self.request.on_tokens is not None and self.error is None:
            self.request.on_tokens(committed)


class LiveSequence:
    """A sequence of the batch: its drafter, its rules, and its part of the present step.

    Attributes:
        output: what it has written.
        head: finds the largest logits if they decide; None if all are needed.
        largest: how many of the largest logits of a row are read; 0: all.
        tree: the draft of this step, which is scored.
        path, bonus: nodes (k,) int32 of ``tree`` that were accepted, and the token after them.
        committed: the tokens (k,) int32 of this step that the output took.
    """

    def __init__(self, output: Running, target: Target, ends: set[int], *, alone: bool) -> None:
        """Make and start the drafter as the sequence joins the batch, perhaps ``alone`` in it."""
        request = output.request
        self.output, self.request, self.ends = output, request, ends
        self.chains_only = target.chains_only
        self.head: CertifiedHead | None = target.head if request.is_largest else None
        self.drafter = request.drafter()
        needs = self.drafter.needs
        self.needs = needs
        reads = (needs.top_logits or 0) if needs.logits else 1
        reads_all = needs.hidden_states or self.head is None or request.on_logits is not None
        self.largest = 0 if reads_all else reads
        self.masks = None if request.grammar is None else Masks(request.grammar)
        self.adjust: Processors | Masks | None = self.masks
        if request.processors:
            self.adjust = Processors(
                request.processors, request.prompt, output.limit, target.device, self.masks
            )
        self.drafts_first = needs.drafts_first and alone and target.can_read(request.prompt)
        self.tree, self.path, self.bonus = Draft(), np.empty(0, np.int32), 0
        self.committed = np.empty(0, np.int32)
        self.drafter.start(request.prompt)

    def draft(self, plan: Plan, max_nodes: int) -> None:
        """Draft as ``plan`` allows, at most ``max_nodes`` nodes and what a grammar determines.

        Raises InputError if the drafter proposes more.
        """
        room = self.output.room
        max_nodes = min(max_nodes, room)
        draft = plan.draft(self.drafter, max_nodes).scored
        most = max_nodes if self.masks is None else max(max_nodes, FORCED)
        if len(draft) > most:
            raise InputError(f"the drafter proposed {len(draft)} nodes for a budget of {max_nodes}")
        if len(draft) > room:
            draft = draft.subtree(np.arange(room, dtype=np.int32))
        self.tree = draft.best_chain() if self.chains_only else draft

    def verify(self, rows: Logits) -> None:
        """Find the accepted path and the bonus token; an error ends this sequence only."""
        if isinstance(rows, TopLogits):
            self.path, self.bonus = greedy(self.tree, rows)
            return
        try:
            self.path, self.bonus = self.request.verify(self.tree, rows, self.adjust)
        except InputError as error:
            self.path, self.bonus, self.output.error = np.empty(0, np.int32), 0, error

    def commit(self) -> None:
        """Append the verified tokens up to where the output ends."""
        output = self.output
        committed = output.append([*self.tree.tokens[self.path].tolist(), self.bonus], self.ends)
        self.committed = np.array(committed, np.int32)
        if output.error is not None:
            output.finished = "error"
            return
        if self.adjust is not None:
            self.adjust.extend(committed)
        if self.masks is not None and not self.ends and self.masks.complete:
            output.finished = output.finished or "stop"
        if len(output.tokens) >= output.limit:
            output.finished = output.finished or "length"

    def observe(self, hidden: torch.Tensor | None, rows: Logits) -> None:
        """Pass on what the drafter needs, in the shapes of ``UsesHiddenStates``, and the logits."""
        drafter = self.drafter
        if self.request.on_logits is not None and self.output.error is None:
            assert isinstance(rows, torch.Tensor)
            decided = [0, *(self.path + 1).tolist()][: len(self.committed)]
            self.request.on_logits(self.committed, rows[decided])
        if self.needs.hidden_states and hidden is not None:
            assert isinstance(drafter, UsesHiddenStates)
            assert isinstance(rows, torch.Tensor)
            drafter.on_hidden_states(hidden, rows, self.path)
        if self.needs.logits:
            assert isinstance(drafter, UsesLogits)
            drafter.on_logits(self.tree, rows)
        drafter.observe(self.committed)

    def finish(self) -> Running:
        """Complete the result of the output, and return the output."""
        result = self.output.result
        result.tokens = np.array(self.output.tokens, np.int32)
        result.finish = self.output.finished
        if isinstance(self.drafter, ReportsSources):
            sources = self.drafter.sources()
            result.sources = None if sources is None else sources[: len(result.tokens)]
        return self.output
