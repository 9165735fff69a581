"""Encoded training examples with marked targets, and their batches in an order set by the seed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from transformers import PreTrainedModel

from tasc.errors import InputError
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer

IGNORED = -100  # torch's own mark for "no target here"
_WINDOW = 32  # steps whose examples are sorted by length together
_MULTIPLE = 8  # lengths are padded to a multiple, as each new shape is slow once
_PART = 128  # tokens of a forward on a CPU, about: more are no faster, and need more memory


@dataclass(frozen=True)
class Examples:
    """Encoded examples as parallel arrays; example i is ``offsets[i]:offsets[i + 1]``."""

    tokens: np.ndarray  # (T,) int32
    targets: np.ndarray  # (T,) bool, True for tokens to learn; never the first of an example
    positions: np.ndarray  # (T,) int32, from 0 at each document
    offsets: np.ndarray  # (S+1,) int64
    cut: int = 0  # number of examples that were too long and lost text

    def __post_init__(self) -> None:
        sizes = {len(self.tokens), len(self.targets), len(self.positions), int(self.offsets[-1])}
        if len(sizes) != 1:
            raise ValueError(f"the arrays differ in length: {sorted(sizes)}")
        if self.targets[self.offsets[:-1]].any():
            raise ValueError("the first token of an example cannot be a target")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """(S,) int64, tokens of each example."""
        return np.diff(self.offsets)

    @property
    def packed(self) -> bool:
        """Whether an example contains more than one document."""
        return int((self.positions == 0).sum()) > len(self)

    def targets_of(self, indices: np.ndarray) -> int:
        return sum(int(self.targets[self.offsets[i] : self.offsets[i + 1]].sum()) for i in indices)

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for array in (self.tokens, self.targets, self.positions, self.offsets):
            digest.update(array.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Batch:
    """Sequences padded on the right to one length.

    There is no attention mask, so attention stays on its fastest path: under a causal mask no
    token sees the padding after it, and padding has no targets.
    """

    input_ids: torch.Tensor  # (B, L) int64
    labels: torch.Tensor  # (B, L) int64, the token itself if it is a target, else ``IGNORED``
    # (B, L) int64 for packed examples, whose documents then do not see each other.
    position_ids: torch.Tensor | None

    def to(self, device: torch.device) -> "Batch":
        positions = None if self.position_ids is None else self.position_ids.to(device)
        return Batch(self.input_ids.to(device), self.labels.to(device), positions)


def encode_examples(
    tokenizer: LoadedTokenizer,
    prompts: Sequence[str],
    outputs: Sequence[str],
    max_length: int,
    *,
    learn_prompts: bool = False,
) -> Examples:
    """Encode prompt + output + end token of each example; output and end token are targets.

    Prompt and output are encoded separately, as in decoding. An example longer than ``max_length``
    loses the beginning of its prompt, then the end of its output with the end token, so that a cut
    output does not teach the model to stop early. Raises InputError without examples.
    """
    if not prompts:
        raise InputError("there are no examples to learn from: check the split and the limit")
    encoded = tokenizer.encode(prompts).split(), tokenizer.encode(outputs).split()
    end = np.array([tokenizer.eos_id], dtype=np.int32)
    examples, targets, cut = [], [], 0
    for prompt, output in zip(*encoded, strict=True):
        answer = np.concatenate([output, end])
        cut += len(prompt) + len(answer) > max_length
        read, learnt = kept_lengths(len(prompt), len(answer), max_length)
        example = np.concatenate([prompt[len(prompt) - read :], answer[:learnt]])
        target = np.ones(len(example), dtype=bool)
        target[: 1 if learn_prompts else max(1, read)] = False
        examples.append(example)
        targets.append(target)
    return join_examples(examples, targets, int(cut))


def longest_example(model: PreTrainedModel, max_length: int) -> int:
    """Return ``max_length``, or the number of the model's positions if that is lower.

    Raises InputError for a model with fewer than two positions.
    """
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if positions is not None and positions < 2:
        raise InputError(
            f"the model has {positions} positions by its config.json, but an example has at least "
            "two tokens: choose another model"
        )
    return min(max_length, positions or max_length)


def kept_lengths(prompt: int, answer: int, max_length: int) -> tuple[int, int]:
    """Return how many last tokens of a prompt and first tokens of an answer are kept."""
    read = min(prompt, max(1, max_length - answer))
    return read, min(answer, max_length - read)


def pack_blocks(documents: Examples, length: int, seed: int) -> Examples:
    """Pack documents, shuffled, into examples of ``length`` tokens; the last may be shorter.

    A document that crosses the end of an example continues in the next one as a new document.
    """
    order = np.random.default_rng([seed, 0x9ACC]).permutation(len(documents))
    index = np.concatenate([np.arange(*documents.offsets[i : i + 2]) for i in order])
    tokens, positions = documents.tokens[index], documents.positions[index].copy()
    targets = documents.targets[index].copy()
    offsets = np.append(np.arange(0, len(tokens), length), len(tokens)).astype(np.int64)
    for start, stop in pairwise(offsets):
        targets[start] = False
        first = positions[start]  # above 0 if the document began in the example before
        if first:
            later = np.flatnonzero(positions[start:stop] == 0)
            positions[start : start + later[0] if len(later) else stop] -= first
    return Examples(tokens, targets, positions, offsets, documents.cut)


def plan_epoch(
    lengths: np.ndarray, micro_batch: int, effective_batch: int, seed: int, epoch: int
) -> list[list[np.ndarray]]:
    """Return the steps of one epoch; a step is a list of micro-batches of example indices.

    Examples are shuffled, sorted by length inside windows of many steps, and cut into
    micro-batches, which are shuffled again: there is little padding, and lengths still mix within a
    step. The order depends on the arguments alone.
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


def cut_for_cpu(lengths: np.ndarray, indices: np.ndarray) -> list[np.ndarray]:
    """Cut a micro-batch into parts of about ``_PART`` tokens and of similar lengths.

    ``lengths`` (S,) has an entry for each example. The parts' losses add up to the batch's.
    """
    ordered = indices[np.argsort(lengths[indices], kind="stable")]
    tokens = np.cumsum(lengths[ordered])
    count = min(len(ordered), -(-int(tokens[-1]) // _PART))
    ends = np.searchsorted(tokens, np.arange(1, count) * tokens[-1] / count, side="right")
    return [part for part in np.split(ordered, ends) if len(part)]


def collate(examples: Examples, indices: np.ndarray, multiple: int = _MULTIPLE) -> Batch:
    """Pad some examples with id 0 to one length: a ``multiple``, or the longest of all."""
    longest = int(examples.lengths[indices].max())
    length = min(-(-longest // multiple) * multiple, int(examples.lengths.max()))
    ids = np.zeros((len(indices), length), dtype=np.int64)
    labels = np.full((len(indices), length), IGNORED, dtype=np.int64)
    positions = np.tile(np.arange(length), (len(indices), 1))
    for i, index in enumerate(indices):
        part = slice(examples.offsets[index], examples.offsets[index + 1])
        n, targets = part.stop - part.start, examples.targets[part]
        ids[i, :n] = examples.tokens[part]
        labels[i, :n] = np.where(targets, examples.tokens[part], IGNORED)
        positions[i, :n] = examples.positions[part]
        positions[i, n:] = positions[i, n - 1] + np.arange(1, length - n + 1)
    packed = torch.from_numpy(positions) if examples.packed else None
    return Batch(torch.from_numpy(ids), torch.from_numpy(labels), packed)


def join_examples(
    tokens: Sequence[np.ndarray], targets: Sequence[np.ndarray], cut: int = 0
) -> Examples:
    """Return examples of one document each."""
    joined = Encoded.of(tokens)
    positions = np.concatenate([np.arange(len(t), dtype=np.int32) for t in tokens])
    return Examples(joined.tokens, np.concatenate(targets), positions, joined.offsets, cut)
