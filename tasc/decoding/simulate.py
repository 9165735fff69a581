"""Simulates decoding without a model: the target is assumed to write the reference outputs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc.decoding.drafters import Factory
from tasc.decoding.steps import StepStats
from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer

LONGEST = 256  # tokens of an output, as in a bench
MOST_SAMPLES = 400  # outputs of a simulation: enough for a narrow interval


@dataclass(frozen=True, eq=False)
class References:
    """Prompts (L_i,) int32 and their outputs (T_i,) int32, without the ``end`` token.

    As in a decoding loop, an output has at most ``max_new_tokens``, including the end token, and
    drafts are cut to chains if the target scores ``chains_only``.
    """

    prompts: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]
    end: int
    max_new_tokens: int = LONGEST
    chains_only: bool = False

    @classmethod
    def of(
        cls,
        tokenizer: LoadedTokenizer,
        prompts: Sequence[str],
        outputs: Sequence[str],
        max_new_tokens: int = LONGEST,
        *,
        chains_only: bool = False,
    ) -> "References":
        """Encode at most MOST_SAMPLES examples, spread evenly. Raises InputError for none."""
        count = len(outputs)
        if not count:
            raise InputError("a simulation needs outputs: pass a split that has examples")
        chosen = np.linspace(0, count - 1, min(count, MOST_SAMPLES)).astype(int).tolist()
        prompt_ids, output_ids = (
            tokenizer.encode([texts[i] for i in chosen]).split() for texts in (prompts, outputs)
        )
        return cls(prompt_ids, output_ids, tokenizer.eos_id, max_new_tokens, chains_only)

    def targets(self) -> list[np.ndarray]:
        """Return the tokens that the target writes: (≤ max_new_tokens,) int32 per output."""
        ended = [np.append(output, self.end).astype(np.int32) for output in self.outputs]
        return [
            tokens[: min(int((tokens == self.end).argmax()) + 1, self.max_new_tokens)]
            for tokens in ended
        ]


def simulate(factory: Factory, references: References, tree_size: int) -> StepStats:
    """Decode ``references`` as the loop would, teacher-forced, with ``tree_size`` nodes per draft.

    ``factory`` makes the drafter of each output. The prefill commits the first token; a step
    commits the drafted tokens that agree with the output and one more, up to the end token.
    """
    drafted, accepted, steps = list[int](), list[int](), list[int]()
    targets, seconds, ended = references.targets(), 0.0, 0
    for prompt, target in zip(references.prompts, targets, strict=True):
        known, drafter, was_drafted = len(drafted), factory(), False
        begin = time.perf_counter()
        drafter.start(prompt)
        drafter.observe(target[:1])
        seconds += time.perf_counter() - begin
        rest = target[1:]
        while len(rest):
            room = references.max_new_tokens - (len(target) - len(rest)) - 1
            begin = time.perf_counter()
            draft = drafter.draft(min(tree_size, room))
            draft = draft.best_chain() if references.chains_only else draft
            seconds += time.perf_counter() - begin
            agreeing = len(draft.path_of(rest))
            was_drafted = agreeing == len(rest)  # the last token, too
            committed, rest = rest[: agreeing + 1], rest[agreeing + 1 :]
            begin = time.perf_counter()
            drafter.observe(committed)
            seconds += time.perf_counter() - begin
            drafted.append(len(draft))
            accepted.append(len(committed) - 1)
        steps.append(len(drafted) - known)
        ended += was_drafted
    lengths = np.array([len(target) for target in targets])
    return StepStats(
        lengths, np.array(steps), np.array(drafted, int), np.array(accepted, int), seconds, ended
    )
