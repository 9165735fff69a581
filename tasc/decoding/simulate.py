"""Simulates decoding without a model: the target is assumed to write the reference outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.generation import Generation, PhaseTimer
from tasc.decoding.drafters import Factory
from tasc.decoding.policy import Batch, Policy
from tasc.decoding.steps import StepStats
from tasc.errors import InputError
from tasc.models.cost_model import LONGEST_CHAIN
from tasc.models.inputs import common_prefix
from tasc.tokenizer.loaded import LoadedTokenizer

LONGEST = 256  # tokens of an output, as in a bench
MOST_SAMPLES = 400  # outputs of a simulation: enough for a narrow interval


@dataclass(frozen=True, eq=False)
class References:
    """Prompts (L_i,) int32 and their outputs (T_i,) int32, without the ``end`` token.

    As in a decoding loop, an output has at most ``max_new_tokens``, including the end token, and
    drafts are cut to chains if the target scores ``chains_only``. ``drafts_first``: whether drafts
    begin with the prefill, as where one sequence is decoded at a time.
    """

    prompts: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]
    end: int
    max_new_tokens: int = LONGEST
    chains_only: bool = False
    drafts_first: bool = False

    @classmethod
    def of(
        cls,
        tokenizer: LoadedTokenizer,
        prompts: Sequence[str],
        outputs: Sequence[str],
        max_new_tokens: int = LONGEST,
        chains_only: bool = False,
        drafts_first: bool = True,
    ) -> "References":
        """Encode at most MOST_SAMPLES examples, spread evenly. Raises InputError for none."""
        count = len(outputs)
        if not count:
            raise InputError("a simulation needs outputs: pass a split that has examples")
        chosen = np.linspace(0, count - 1, min(count, MOST_SAMPLES)).astype(int).tolist()
        prompt_ids, output_ids = (
            tokenizer.encode([texts[i] for i in chosen]).split() for texts in (prompts, outputs)
        )
        limits = max_new_tokens, chains_only, drafts_first
        return cls(prompt_ids, output_ids, tokenizer.eos_id, *limits)

    @cached_property
    def unread(self) -> list[np.ndarray]:
        """The prompts without the tokens with which all begin: a target reads those once."""
        shared = 0 if self.chains_only else len(common_prefix(self.prompts))
        return [prompt[shared:] for prompt in self.prompts]

    def targets(self) -> list[np.ndarray]:
        """Return the tokens that the target writes: (≤ max_new_tokens,) int32 per output."""
        ended = [np.append(output, self.end).astype(np.int32) for output in self.outputs]
        return [
            tokens[: min(int((tokens == self.end).argmax()) + 1, self.max_new_tokens)]
            for tokens in ended
        ]


def simulate(
    factory: Factory, references: References, tree_size: int, policy: Policy | None = None
) -> StepStats:
    """Decode ``references`` as the loop would, teacher-forced, with ``tree_size`` nodes per draft.

    ``factory`` makes the drafter of each output, and ``policy`` may draft fewer nodes. A step
    commits the drafted tokens that agree with the output and one more, up to the end token. The
    prefill is the first step. It drafts only with ``drafts_first``, after prompts that are read
    together with a draft.
    """
    parts = zip(references.prompts, references.unread, references.targets(), strict=True)
    policy = policy or Policy()
    decoded = [_decode(factory, references, tree_size, policy, part) for part in parts]
    stats = StepStats.of([generation for generation, _, _ in decoded])
    scored = np.array([nodes for _, nodes, _ in decoded])
    return replace(stats, ended=sum(ended for _, _, ended in decoded), scored=scored)


def _decode(
    factory: Factory,
    references: References,
    tree_size: int,
    policy: Policy,
    part: tuple[np.ndarray, ...],
) -> tuple[Generation, int, bool]:
    """Decode one output, ``part``: the prompt, what is unread of it, and the target's tokens.

    Return also the nodes that the prefill scored, and whether a later step drafted the end token.
    """
    prompt, unread, target = part
    generation, timer, drafter = Generation(target), PhaseTimer(), factory()
    drafter.start(prompt)
    timer.end("draft")
    begin, scored, ended = 0, 0, False
    drafts_first = references.drafts_first and len(unread) <= LONGEST_CHAIN
    while begin < len(target):
        room = references.max_new_tokens - begin - 1
        plan = policy.plan(Batch(1, 0 if begin else len(prompt))) if begin or drafts_first else None
        draft = plan.draft(drafter, min(tree_size, room)).scored if plan else Draft()
        if references.chains_only:
            draft = draft.best_chain()
        timer.end("draft")
        agreeing = len(draft.path_of(target[begin:]))
        committed = target[begin : begin + agreeing + 1]
        timer.end("verify")
        drafter.observe(committed)
        if plan:
            policy.record(plan.step([committed]))
        timer.end("draft")
        if begin == 0:
            scored, generation.prefilled = len(draft), len(committed)
        else:
            generation.drafted.append(len(draft))
            generation.accepted.append(len(committed) - 1)
            ended = begin + agreeing == len(target)  # the last token was drafted, too
        begin += len(committed)
    generation.timeline.draft = timer.seconds["draft"]
    return generation, scored, ended
