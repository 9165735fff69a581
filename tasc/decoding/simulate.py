"""Simulates decoding without a model: the target is assumed to write the reference outputs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc.backend.tree import greedy_path, tree_inputs
from tasc.decoding.core.protocols import Drafter
from tasc.decoding.drafters import Factory
from tasc.decoding.steps import StepStats
from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer

LONGEST = 256  # tokens of an output, as in a bench
MOST_SAMPLES = 400  # outputs of a simulation: enough for a narrow interval


@dataclass(frozen=True, eq=False)
class References:
    """Prompts (L_i,) int32 and their outputs (T_i,) int32, without the ``end`` token.

    As in a decoding loop, an output has at most ``max_new_tokens``, including the end token.
    """

    prompts: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]
    end: int
    max_new_tokens: int = LONGEST

    @classmethod
    def of(
        cls,
        tokenizer: LoadedTokenizer,
        prompts: Sequence[str],
        outputs: Sequence[str],
        max_new_tokens: int = LONGEST,
    ) -> "References":
        """Encode at most MOST_SAMPLES examples, spread evenly over all.

        Raises:
            InputError: there are no examples.
        """
        count = len(outputs)
        if not count:
            raise InputError("a simulation needs outputs: pass a split that has examples")
        chosen = np.linspace(0, count - 1, min(count, MOST_SAMPLES)).astype(int).tolist()
        prompt_ids, output_ids = (
            tokenizer.encode([texts[i] for i in chosen]).split() for texts in (prompts, outputs)
        )
        return cls(prompt_ids, output_ids, tokenizer.eos_id, max_new_tokens)

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
    drafted: list[int] = []
    accepted: list[int] = []
    targets, steps, seconds, ended = references.targets(), [], 0.0, 0
    for prompt, target in zip(references.prompts, targets, strict=True):
        known = len(drafted)
        run = _Run(factory(), target, references.max_new_tokens)
        run.start(prompt)
        while run.committed < len(target):
            nodes, tokens = run.step(tree_size)
            drafted.append(nodes)
            accepted.append(tokens)
        steps.append(len(drafted) - known)
        seconds += run.seconds
        ended += run.ended
    lengths = np.array([len(target) for target in targets])
    return StepStats(
        lengths, np.array(steps), np.array(drafted, int), np.array(accepted, int), seconds, ended
    )


@dataclass
class _Run:
    """One output in progress, and the seconds spent in its drafter."""

    drafter: Drafter
    target: np.ndarray
    most: int
    committed: int = 0
    seconds: float = 0.0
    ended: bool = False  # whether the last token was drafted

    def start(self, prompt: np.ndarray) -> None:
        """Read the prompt and observe the first token, which the prefill commits."""
        begin = time.perf_counter()
        self.drafter.start(prompt)
        self.drafter.observe(self.target[:1])
        self.seconds += time.perf_counter() - begin
        self.committed = 1

    def step(self, tree_size: int) -> tuple[int, int]:
        """Draft and commit; return the numbers of nodes drafted and of tokens accepted."""
        begin = time.perf_counter()
        draft = self.drafter.draft(min(tree_size, self.most - self.committed - 1))
        self.seconds += time.perf_counter() - begin
        rest = self.target[self.committed :]
        agreeing = _agreeing(draft.tokens, draft.parents, rest)
        self.ended = agreeing == len(rest)
        committed = rest[: agreeing + 1]
        begin = time.perf_counter()
        self.drafter.observe(committed)
        self.seconds += time.perf_counter() - begin
        self.committed += len(committed)
        return len(draft), len(committed) - 1


def _agreeing(tokens: np.ndarray, parents: np.ndarray, rest: np.ndarray) -> int:
    """Count the first tokens of ``rest`` that form a path of the tree."""
    depths = tree_inputs(parents)[1]
    # After a node of depth d, the arg-max of the target is rest[d].
    best = np.append(rest, np.full(max(len(tokens), 1), -1, np.int32))
    return len(greedy_path(tokens, parents, best[depths].astype(np.int32)))
