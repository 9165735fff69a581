"""From texts to batches: token sequences with marked targets, in an order fixed by the seed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer

IGNORED = -100  # torch's own mark for "no target here"
_WINDOW = 32  # steps whose rows are sorted by length together
_MULTIPLE = 8  # lengths are padded to a multiple: few shapes, each of which costs a first time


@dataclass(frozen=True)
class Sequences:
    """Token sequences as parallel arrays; row i is ``offsets[i]:offsets[i + 1]``."""

    tokens: np.ndarray  # (T,) int32
    # (T,) bool, True where the token is to be learnt. The first of a row never is.
    targets: np.ndarray
    # (T,) int32, from 0 at each document; a row of several documents is packed.
    positions: np.ndarray
    offsets: np.ndarray  # (S+1,) int64
    cut: int = 0  # how many examples were longer than allowed and lost text

    def __post_init__(self) -> None:
        """Check the invariant."""
        sizes = {len(self.tokens), len(self.targets), len(self.positions), int(self.offsets[-1])}
        if len(sizes) != 1:
            raise ValueError(f"arrays of one length expected, got {sorted(sizes)}")
        if self.targets[self.offsets[:-1]].any():
            raise ValueError("the first token of a row cannot be a target: nothing precedes it")

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """(S,) int64, tokens of each row."""
        return np.diff(self.offsets)

    @property
    def packed(self) -> bool:
        """Whether a row holds more than one document."""
        return int((self.positions == 0).sum()) > len(self)

    def targets_of(self, rows: np.ndarray) -> int:
        """Return how many targets some rows have."""
        return sum(int(self.targets[self.offsets[i] : self.offsets[i + 1]].sum()) for i in rows)

    def fingerprint(self) -> str:
        """Hash of the contents."""
        digest = hashlib.sha256()
        for array in (self.tokens, self.targets, self.positions, self.offsets):
            digest.update(array.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Batch:
    """Rows padded on the right to one length.

    No attention mask: under a causal mask no token sees the padding after it, and padding has no
    targets. That keeps attention on its fastest path.
    """

    input_ids: torch.Tensor  # (B, L) int64
    labels: torch.Tensor  # (B, L) int64, the token itself where it is a target, else ``IGNORED``
    # (B, L) int64 for packed rows, whose documents then do not see each other.
    position_ids: torch.Tensor | None
    keep: int  # how many last positions logits are needed for

    def to(self, device: torch.device) -> "Batch":
        """Return the same batch on a device."""
        positions = None if self.position_ids is None else self.position_ids.to(device)
        return Batch(self.input_ids.to(device), self.labels.to(device), positions, self.keep)


def example_sequences(
    tokenizer: LoadedTokenizer,
    prompts: Sequence[str],
    outputs: Sequence[str],
    max_length: int,
    *,
    learn_prompts: bool = False,
) -> Sequences:
    """Return one row per example: prompt, output, end token; the output and the end are targets.

    Prompt and output are encoded apart, as they are when decoding. A row longer than
    ``max_length`` loses the beginning of its prompt, then the end of its output (and the end
    token, so that a cut output does not teach to stop early).

    Raises:
        InputError: there are no examples.
    """
    if not prompts:
        raise InputError("there are no examples to learn from: check the split and the limit")
    heads, tails = tokenizer.encode(prompts), tokenizer.encode(outputs)
    rows, targets, cut = [], [], 0
    end = np.array([tokenizer.eos_id], dtype=np.int32)
    for i in range(len(prompts)):
        prompt = heads.tokens[heads.offsets[i] : heads.offsets[i + 1]]
        answer = np.concatenate([tails.tokens[tails.offsets[i] : tails.offsets[i + 1]], end])
        cut += len(prompt) + len(answer) > max_length
        left, written = kept(len(prompt), len(answer), max_length)
        prompt, answer = prompt[len(prompt) - left :], answer[:written]
        target = np.ones(len(prompt) + len(answer), dtype=bool)
        target[: 1 if learn_prompts else max(1, len(prompt))] = False
        rows.append(np.concatenate([prompt, answer]))
        targets.append(target)
    return joined(rows, targets, int(cut))


def kept(prompt: int, answer: int, max_length: int) -> tuple[int, int]:
    """Return how many tokens stay of a prompt, its last ones, and of an answer, its first ones."""
    left = min(prompt, max(1, max_length - answer))
    return left, min(answer, max_length - left)


def packed_blocks(documents: Sequences, length: int, seed: int) -> Sequences:
    """Pack documents, shuffled, into rows of ``length`` tokens, the last one shorter.

    A document that crosses the end of a row continues in the next one as a document of its own.
    """
    order = np.random.default_rng([seed, 0x9ACC]).permutation(len(documents))
    index = np.concatenate(
        [np.arange(documents.offsets[i], documents.offsets[i + 1]) for i in order]
    )
    tokens, positions = documents.tokens[index], documents.positions[index].copy()
    targets = documents.targets[index].copy()
    offsets = np.append(np.arange(0, len(tokens), length), len(tokens)).astype(np.int64)
    for start, stop in pairwise(offsets):
        targets[start] = False
        first = positions[start]  # of a document that began in the row before
        if first:
            later = np.flatnonzero(positions[start:stop] == 0)
            positions[start : start + later[0] if len(later) else stop] -= first
    return Sequences(tokens, targets, positions, offsets, documents.cut)


def plan_epoch(
    lengths: np.ndarray, micro_batch: int, effective_batch: int, seed: int, epoch: int
) -> list[list[np.ndarray]]:
    """Return the steps of one epoch; a step is a list of micro-batches, arrays of row numbers.

    Rows are shuffled, sorted by length inside windows of many steps and cut into micro-batches,
    which are shuffled again: little padding, and lengths still mix within a step. The order
    depends on the arguments only, so a resumed run continues the very same one.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    micro: list[np.ndarray] = []
    for start in range(0, len(order), _WINDOW * effective_batch):
        window = order[start : start + _WINDOW * effective_batch]
        window = window[np.argsort(lengths[window], kind="stable")]
        micro += [window[i : i + micro_batch] for i in range(0, len(window), micro_batch)]
    micro = [micro[i] for i in rng.permutation(len(micro))]
    per_step = effective_batch // micro_batch
    return [micro[i : i + per_step] for i in range(0, len(micro), per_step)]


def collate(data: Sequences, rows: np.ndarray) -> Batch:
    """Pad rows to one length, with id 0: what stands there is never seen nor learnt."""
    longest = int(data.lengths[rows].max())
    length = -(-longest // _MULTIPLE) * _MULTIPLE
    ids = np.zeros((len(rows), length), dtype=np.int64)
    labels = np.full((len(rows), length), IGNORED, dtype=np.int64)
    positions = np.tile(np.arange(length), (len(rows), 1))
    first = length
    for i, row in enumerate(rows):
        part = slice(data.offsets[row], data.offsets[row + 1])
        n = part.stop - part.start
        ids[i, :n] = data.tokens[part]
        labels[i, :n] = np.where(data.targets[part], data.tokens[part], IGNORED)
        positions[i, :n] = data.positions[part]
        positions[i, n:] = positions[i, n - 1] + np.arange(1, length - n + 1)
        first = min(first, int(np.argmax(data.targets[part])) if data.targets[part].any() else n)
    packed = torch.from_numpy(positions) if data.packed else None
    keep = length - max(0, first - 1)
    return Batch(torch.from_numpy(ids), torch.from_numpy(labels), packed, keep)


def joined(rows: list[np.ndarray], targets: list[np.ndarray], cut: int = 0) -> Sequences:
    """Return one document a row as Sequences."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    positions = np.concatenate([np.arange(len(row), dtype=np.int32) for row in rows])
    return Sequences(
        np.concatenate(rows).astype(np.int32), np.concatenate(targets), positions, offsets, cut
    )
