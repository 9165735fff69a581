"""A serving engine as a proposer sees it, around requests whose outputs are known beforehand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

BEHIND = 3  # what this target says behind an end token; the engine cuts it off


def configured(model: Path, tasc: dict[str, Any] | None, tokens: int = 8) -> SimpleNamespace:
    """The parts of vLLM's configuration that a proposer reads."""
    return SimpleNamespace(
        additional_config=None if tasc is None else {"tasc": tasc, "other": 1},
        model_config=SimpleNamespace(tokenizer=str(model), max_model_len=400),
        speculative_config=SimpleNamespace(num_speculative_tokens=tokens),
        scheduler_config=SimpleNamespace(max_num_seqs=4),
    )


@dataclass(eq=False)
class Running:
    """A request under way; ``wait`` steps pass before its prompt has been read."""

    prompt: list[int]
    output: list[int]
    wait: int = 0
    done: int = 0
    draft: list[int] = field(default_factory=list)

    def step(self) -> list[int]:
        """Verify the draft: what it shares with the output, and one token more."""
        if self.wait:
            self.wait -= 1
            return []
        rest = self.output[self.done :]
        said = [*rest, BEHIND]
        agree = 0
        while agree < min(len(self.draft), len(rest)) and self.draft[agree] == said[agree]:
            agree += 1
        self.done = min(self.done + agree + 1, len(self.output))
        return said[: agree + 1]


@dataclass
class Counts:
    """What vLLM counts: steps with a draft, its tokens, and those that were accepted."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0

    def add(self, draft: Sequence[int], said: Sequence[int]) -> None:
        if draft:
            self.drafts += 1
            self.drafted += len(draft)
            self.accepted += len(said) - 1


class Engine:
    """Runs requests in ``rows`` rows of ``positions`` tokens; rows move where ``rng`` is given.

    ``proposer`` has ``ChainProposer.propose``. Like vLLM, the engine takes a draft along in a
    request, and empties it when the request is preempted.
    """

    def __init__(
        self,
        proposer: Any,
        rows: int = 1,
        rng: np.random.Generator | None = None,
        positions: int = 400,
    ) -> None:
        self.proposer, self.rows, self.rng = proposer, rows, rng
        self.tokens = np.zeros((rows, positions), np.int32)
        self.counts = Counts()
        self.drafts: list[list[list[int]]] = []

    def run(self, requests: Iterable[tuple[Any, Any]], trouble: float = 0.0) -> None:
        """Serve all; in a step, each request is put off or aborted with the odds ``trouble``."""
        waiting = [Running([*map(int, prompt)], [*map(int, out)]) for prompt, out in requests]
        if self.rng is not None and trouble:
            for request in waiting:
                request.wait = int(self.rng.integers(0, 3))
        running: list[Running] = []
        while waiting or running:
            while waiting and len(running) < self.rows:
                running.append(waiting.pop(0))
            running = self._step(running)
            if self.rng is not None:
                self.rng.shuffle(running)
                for request in list(running) if trouble else []:
                    if self.rng.random() < trouble:  # preempted, or gone
                        running.remove(request)
                        request.draft = []
                        if self.rng.random() < 0.7:
                            waiting.append(request)

    def _step(self, running: list[Running]) -> list[Running]:
        said = []
        for row, request in enumerate(running):
            before = [*request.prompt, *request.output[: request.done]]
            new = request.step()
            whole = before + new
            self.tokens[row, : len(whole)] = whole
            self.counts.add(request.draft, new)
            said.append(new)
        pairs = zip(running, said, strict=True)
        lengths = [len(r.prompt) + r.done + (BEHIND in new) for r, new in pairs]
        drafts = self.proposer.propose(said, lengths, self.tokens)
        self.drafts.append(drafts)
        for request, draft in zip(running, drafts, strict=True):
            request.draft = draft
        return [r for r in running if r.done < len(r.output)]
