"""One method on one task of the draft heads' benchmark: decoded, counted, described.

Coverage is the share of committed tokens that the step's draft vocabulary held.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from benchmarks.drafting.logits import equal, tokens_a_second
from tasc.benchmark.matrix import Loaded
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter
from tasc.decoding.decode import Generation, generate
from tasc.decoding.drafters.heads.draft_vocab.full import DraftVocabulary
from tasc.decoding.drafters.heads.eagle import Eagle
from tasc.decoding.steps import StepStats


class TimedHead:
    """A draft vocabulary that counts the seconds of its LM head."""

    def __init__(self, inner: DraftVocabulary) -> None:
        """Count for ``inner``."""
        self.inner, self.seconds = inner, 0.0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Everything else is its own."""
        return getattr(self.inner, name)

    def logits(self, hidden: Tensor) -> Tensor:
        """See DraftVocabulary.logits."""
        begin = time.perf_counter()
        result = self.inner.logits(hidden)
        self.seconds += time.perf_counter() - begin
        return result


@dataclass
class Cell:
    """One method on one task: what each prompt came to, and what its drafts could have said."""

    done: list[Generation] = field(default_factory=list)
    head_seconds: float = 0.0
    covered: int = 0
    committed: int = 0
    active: list[int] = field(default_factory=list)

    def run(self, ours: Loaded, drafter: Drafter, prompt: np.ndarray, **options: Any) -> None:  # noqa: ANN401
        """Decode one prompt. What coverage costs to find out is not timed."""
        if not isinstance(drafter, Eagle):
            self.done.append(generate(ours.target, drafter, prompt, **options))
            return
        timed = drafter.vocabulary = TimedHead(drafter.vocabulary)
        known: Tensor | None = None
        drafted = False

        def draft(max_nodes: int, own: Any = drafter.draft) -> Draft:  # noqa: ANN401
            nonlocal known, drafted
            result: Draft = own(max_nodes)
            drafted = True
            ids = timed.ids
            known = None if ids is None else ids.clone()  # a window's change from step to step
            return result

        def count(tokens: np.ndarray) -> None:
            if known is not None:
                self.covered += int(np.isin(tokens, known.cpu().numpy()).sum())
                self.active.append(int((known >= 0).sum()))
            elif drafted:
                self.covered += len(tokens)
                self.active.append(timed.lm_head.weight.shape[0])
            else:
                return  # the prompt's own next token: nothing was drafted
            self.committed += len(tokens)

        drafter.draft = draft  # type: ignore[method-assign]
        self.done.append(generate(ours.target, drafter, prompt, on_tokens=count, **options))
        self.head_seconds += timed.seconds

    def describe(self, reference: Sequence[Generation], kinds: Sequence[str]) -> dict[str, Any]:
        """Return the figures, some by kind of prompt.

        ``reference`` are autoregressive generations of the same prompts, ``kinds`` what these are.
        """
        steps = [step for done in self.done for step in done.timeline.steps]
        drafting = sum(step[0] for step in steps)
        return {
            "accepted_length": StepStats.of(self.done).tokens_per_step,
            "active": float(np.mean(self.active)) if self.active else 0.0,
            "coverage": self.covered / self.committed if self.committed else 0.0,
            "draft_ms_a_step": 1e3 * float(np.median([step[0] for step in steps])),
            "draft_ms_a_prompt": 1e3
            * float(
                np.mean([d.timeline.draft - sum(s[0] for s in d.timeline.steps) for d in self.done])
            ),
            "forward_ms_a_step": 1e3 * float(np.median([step[1] for step in steps])),
            "lm_head_share_of_draft": self.head_seconds / drafting if self.committed else 0.0,
            "tokens_a_second": tokens_a_second(self.done),
            "kinds": {
                kind: {
                    "accepted_length": StepStats.of(some).tokens_per_step,
                    "tokens_a_second": tokens_a_second(some),
                    "prompts": len(some),
                }
                for kind in dict.fromkeys(kinds)
                for some in [[d for d, k in zip(self.done, kinds, strict=True) if k == kind]]
            },
            "prompts": len(self.done),
            "steps": len(steps),
            "equal_to_ar": equal(self.done, reference),
        }
