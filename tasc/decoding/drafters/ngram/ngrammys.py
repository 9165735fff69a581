"""N-grammys: the model's own bigrams, mixed with n-grams of the context.

Stewart et al., "The n-grammys: accelerating autoregressive inference with learning-free batched
speculation" (2024): the bigram table contains the target's k most probable next tokens after each
single token. Drafts are rows of w tokens: first earlier continuations in the context, then the
table's k continuations, each extended by its most probable successors. Departs: the rows form one
tree instead of a batch. ``context=false`` is the paper's bigram drafter, the default its mixed one.
"""

from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import NO_NEEDS, Factory
from tasc.decoding.core.resources import Resources
from tasc.errors import InputError
from tasc.options.bounds import LONGEST, MOST_NODES, Bounded, within
from tasc.progress import Progress, silent

TOKENS_PER_FORWARD = 512


@dataclass(frozen=True)
class NgrammysOptions(Bounded):
    """``k``: continuations per token; ``width``: tokens per row; ``n_max``: longest n-gram."""

    k: int = within(8, 1, MOST_NODES)
    width: int = within(6, 1, MOST_NODES)
    context: bool = True
    n_max: int = within(3, 1, LONGEST)


def prepare(resources: Resources, options: NgrammysOptions) -> Factory:
    """Prepare the n-grammys with the target's bigram table."""
    if resources.target is None:
        raise InputError("ngrammys computes the model's bigrams: give a model")
    model = resources.target.model
    table = bigram_table(model, options.k, resources.progress)
    return lambda: Ngrammys(table, resources.end, options)


@torch.inference_mode()
def bigram_table(model: PreTrainedModel, k: int, progress: Progress = silent) -> np.ndarray:
    """Return the ``k`` most probable next tokens after every single token, (V, k) int32.

    A vocabulary below ``k`` tokens gives all of them.
    """
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    k = min(k, vocabulary)
    table = np.empty((vocabulary, k), np.int32)
    for begin in range(0, vocabulary, TOKENS_PER_FORWARD):
        end = min(begin + TOKENS_PER_FORWARD, vocabulary)
        ids = torch.arange(begin, end, device=model.device)
        rows = model(input_ids=ids[:, None], use_cache=False).logits[:, -1]
        table[begin:end] = rows.topk(k).indices.to(torch.int32).cpu().numpy()
        progress("bigrams", end, vocabulary)
    return table


class Ngrammys:
    """One sequence's drafter; the table is shared."""

    needs = NO_NEEDS

    def __init__(self, table: np.ndarray, end: int, options: NgrammysOptions) -> None:
        """Draft from ``table`` (V, k) int32; ``end`` has no children."""
        self.table, self.end, self.options = table, end, options

    def start(self, prompt: np.ndarray) -> None:
        self.sequence: list[int] = []
        self.positions: dict[tuple[int, ...], list[int]] = {}
        self.observe(prompt)

    def draft(self, max_nodes: int) -> Draft:
        """Merge the rows into one tree: context rows first, then the table's."""
        nodes: dict[tuple[int, int], int] = {}  # parent and token -> node
        for row in self._rows():
            at = -1
            for token in row:
                if len(nodes) == max_nodes and (at, token) not in nodes:
                    break
                at = nodes.setdefault((at, token), len(nodes))
                if token == self.end:
                    break
        parents = np.array([parent for parent, _ in nodes], np.int32)
        return Draft(np.array([token for _, token in nodes], np.int32), parents)

    def observe(self, tokens: np.ndarray) -> None:
        """Append the committed tokens and store where their n-grams end."""
        for token in tokens.tolist():
            self.sequence.append(token)
            for n in range(1, min(self.options.n_max, len(self.sequence)) + 1):
                gram = tuple(self.sequence[-n:])
                self.positions.setdefault(gram, []).append(len(self.sequence))

    def _rows(self) -> list[list[int]]:
        if not self.sequence:
            return []
        rows = self._context_rows() if self.options.context else []
        for token in self.table[self.sequence[-1]].tolist():
            row = [token]
            while len(row) < self.options.width:
                row.append(int(self.table[row[-1], 0]))
            rows.append(row)
        return rows

    def _context_rows(self) -> list[list[int]]:
        """Return continuations of the longest n-gram that ends the sequence, latest first."""
        for n in range(min(self.options.n_max, len(self.sequence)), 0, -1):
            positions = self.positions.get(tuple(self.sequence[-n:]), [])
            if len(positions) > 1:  # the last position is the end of the sequence
                latest = positions[-2 : -2 - self.options.k : -1]
                return [self.sequence[p : p + self.options.width] for p in latest]
        return []
