"""Labels in one forward: score every label of a list over the trie of the labels' tokens.

The score of a label is the log-probability of its tokens and the end token after the prompt, which
are encoded separately, as in training. Prompt and trie are one tree, so one forward reads both, and
shared prefixes are scored once. A trie that is too large is cut into parts, each of which repeats
the path that it shares with the part before.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy.special import log_softmax, logsumexp, softmax
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasc.data.choices import check_labels
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.generation import Generation, PhaseTimer, Timeline
from tasc.decoding.core.resources import end_ids
from tasc.decoding.loaded import LoadedModel, plain_model, target_of
from tasc.decoding.tokenizers import Prompt, ids_of
from tasc.errors import InputError
from tasc.models.cost_model import LONGEST_CHAIN
from tasc.models.inputs import after
from tasc.models.packed import native_threads
from tasc.models.target import Target

_MOST_NODES = 1024  # per forward; a tree has at most 4096 nodes
_MOST_LOGITS = 1 << 28  # per forward, in numbers: 1 GiB in float32
_FEW_NODES = 12  # of the first pruned forward, hardly longer than of one token; later ones double

Rows = dict[tuple[int, ...], np.ndarray]  # log-probabilities (V,) after the tokens of a prefix

Path = tuple[float, tuple[int, ...]]  # log-probability of a prefix, and the prefix


@dataclass(frozen=True)
class Part:
    """A part of the trie: a tree of tokens, and the last node of each label in it, -1 for none."""

    tree: Draft
    labels: np.ndarray  # (m,) int64, positions in the list of labels
    ends: np.ndarray  # (m,) int64


def trie_parts(labels: Sequence[np.ndarray], max_nodes: int) -> Iterator[Part]:
    """Yield the trie of ``labels``, each (T_i,) int32, in trees of at most ``max_nodes`` nodes.

    A longer label is a part of its own, so ``max_nodes`` 0 yields one chain per label.
    """
    tokens, parents, ends = list[int](), list[int](), dict[int, int]()
    path, previous = [-1], list[int]()  # nodes and tokens of the label before
    for label in sorted(range(len(labels)), key=lambda i: labels[i].tolist()):
        label_tokens = labels[label].tolist()
        shared = len(os.path.commonprefix([label_tokens, previous]))  # noqa: RUF071 - of lists
        if ends and len(tokens) + len(label_tokens) - shared > max_nodes:
            yield _part(tokens, parents, ends)
            tokens, parents, ends, shared = [], [], {}, 0
        del path[shared + 1 :]
        for token in label_tokens[shared:]:
            parents.append(path[-1])
            path.append(len(tokens))
            tokens.append(token)
        ends[label] = path[-1]
        previous = label_tokens
    if ends:
        yield _part(tokens, parents, ends)


def _part(tokens: list[int], parents: list[int], ends: dict[int, int]) -> Part:
    tree = Draft(np.array(tokens, np.int32), np.array(parents, np.int32))
    return Part(tree, np.array(list(ends)), np.array(list(ends.values())))


class Labels:
    """A list of labels in the tokens of a model."""

    def __init__(
        self, tokens: Sequence[np.ndarray], end: int, offsets: np.ndarray | None = None
    ) -> None:
        """Take the ``tokens`` (T_i,) int32 of each label, of which there is at least one.

        ``offsets`` (labels,) are added to the log-probabilities that ``choose`` compares.
        """
        self.tokens, self.end, self.offsets = list(tokens), end, offsets
        self.parts = cache(lambda most: list(trie_parts(self.tokens, most)))
        self.outputs = [np.append(label, np.int32(end)).astype(np.int32) for label in tokens]
        self.used = np.unique(np.concatenate(self.outputs))

    def calibrated(
        self, target: Target, prompts: Sequence[np.ndarray], shares: np.ndarray
    ) -> "Labels":
        """Return the labels with the offsets of ``calibration`` after ``prompts`` (L_i,) int32.

        ``shares`` (labels,) are the positive shares of the labels in the training outputs.
        """
        scores = np.concatenate([self.scores(target, [prompt])[0] for prompt in prompts])
        return Labels(self.tokens, self.end, calibration(scores, shares))

    def choose(
        self, target: Target, prompts: Sequence[np.ndarray], batch_size: int = 1
    ) -> list[Generation]:
        """Choose the most probable label for each of ``prompts`` (L_i,) int32; ties: the first."""
        chosen = []
        for i in range(0, len(prompts), batch_size):
            batch, timer = prompts[i : i + batch_size], PhaseTimer()
            scores, nodes = self.scores(target, batch)
            timer.end("prefill")
            for row in scores if self.offsets is None else scores + self.offsets:
                best, later = int(row.argmax()), nodes[1:]
                generation = Generation(self.outputs[best], later, [0] * len(later), finish="end")
                generation.probability = float(softmax(row)[best])
                chosen.append(generation)
            timer.add_prefill([generation.timeline for generation in chosen[i:]])
        return chosen

    def scores(self, target: Target, prompts: Sequence[np.ndarray]) -> tuple[np.ndarray, list[int]]:
        """Return log-probabilities (B, labels) float64 after each prompt, and nodes per forward.

        Raises InputError for a prompt that is empty or too long.
        """
        room = max(map(len, self.outputs))
        target.check_ids(self.used, "a label or its end token")
        for prompt in prompts:
            target.check(prompt, room)
        vocabulary = int(target.model.config.get_text_config().vocab_size)
        fits = _MOST_LOGITS // (vocabulary * len(prompts))
        parts = self.parts(0 if target.chains_only else min(max(fits, 1), _MOST_NODES))
        lengths = np.array([len(prompt) for prompt in prompts])
        target.begin(int(lengths.max()) + max(len(part.tree) for part in parts), len(prompts))
        scores = np.empty((len(prompts), len(self.tokens)))
        read = np.full_like(lengths, target.open_shared(prompts))
        with native_threads(target.model):
            if not target.chains_only and (lengths - read).max() > LONGEST_CHAIN:
                target.join([prompt[: max(len(prompt) - 1, 1)] for prompt in prompts])
                read = lengths - 1
            for part in parts:
                target.restart(read)
                rest = [prompt[begin:] for prompt, begin in zip(prompts, read, strict=True)]
                scores[:, part.labels] = _score(target, rest, part, self.end)
                if not target.chains_only:  # later parts find the prompt in the cache
                    read = lengths - 1
        return scores, [len(part.tree) for part in parts]

    def choose_pruned(
        self, target: Target, prompts: Sequence[np.ndarray], batch_size: int = 1
    ) -> list[Generation]:
        """Choose the same labels as ``choose``, and score only those that can still win.

        A label whose scored prefix is less probable than the best label cannot win. Forwards are
        small, so on a CPU this is faster. ``probability`` is a lower bound: labels that were not
        scored count with the probability of their scored prefix. Chains and calibrated labels are
        not pruned.
        """
        if target.chains_only or self.offsets is not None:
            return self.choose(target, prompts, batch_size)
        with native_threads(target.model):
            return [self._prune(target, prompt) for prompt in prompts]

    def _prune(self, target: Target, prompt: np.ndarray) -> Generation:
        longest, timer, steps = max(map(len, self.outputs)), PhaseTimer(), list[int]()
        target.check(prompt, longest)
        target.begin(len(prompt) + max(_FEW_NODES, longest), 1)
        outputs = [output.tolist() for output in self.outputs]
        rows: Rows = {(): target.join([prompt])[0].float().log_softmax(-1).cpu().numpy()}
        timer.end("prefill")
        while True:
            paths = [_walk(rows, output) for output in outputs]
            best, waiting = _rank(paths, outputs)
            if not waiting:
                break
            most = min(_FEW_NODES << len(steps), _MOST_NODES)
            tree = _largest_tree([self.tokens[i] for i in waiting], most)
            target.restart([len(prompt) - 1])
            logits = target.score([int(prompt[-1])], [(tree.tokens, tree.parents)])[0]
            rows = _rows_of(tree, logits) | rows
            steps.append(len(tree))
        timer.end("forward")
        timeline = Timeline(timer.seconds["prefill"], forward=timer.seconds["forward"])
        generation = Generation(self.outputs[best], steps, [0] * len(steps), timeline, finish="end")
        masses = {prefix: bound for bound, prefix in paths}  # labels may share a prefix
        generation.probability = float(
            1 / np.exp(np.array([*masses.values()]) - paths[best][0]).sum()
        )
        return generation


def calibration(scores: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return offsets (labels,) to log-probabilities, which correct a model's bias to some labels.

    ``scores`` (N, labels) are log-probabilities of the labels after N training prompts, and
    ``shares`` (labels,), all positive: how often each label is a training output. The probability
    of a label is divided by its mean over the prompts and multiplied by its share.

    Contextual calibration of Zhao et al. 2021, arXiv 2102.09690, section 5. Departs: the mean over
    training prompts replaces the probabilities after a content-free input, and the shares keep rare
    labels rare.
    """
    mean = logsumexp(log_softmax(scores, axis=1), axis=0) - np.log(len(scores))
    offsets: np.ndarray = np.log(shares) - mean
    return offsets


def _rank(paths: Sequence[Path], outputs: Sequence[list[int]]) -> tuple[int, list[int]]:
    """Return the best output that is scored, and those to score: none if no other can win."""
    bounds = np.array([bound for bound, _ in paths])
    scored = np.array([len(p) == len(o) for (_, p), o in zip(paths, outputs, strict=True)])
    best = int(np.where(scored, bounds, -np.inf).argmax())
    waiting = [i for i in np.argsort(-bounds, kind="stable").tolist() if not scored[i]]
    is_decided = scored[best] and all(bounds[i] < bounds[best] for i in waiting[:1])
    return best, [] if is_decided else waiting


def _walk(rows: Rows, output: list[int]) -> Path:
    """Return the log-probability of the longest scored prefix of an output, and the prefix."""
    total = 0.0
    for i, token in enumerate(output):
        row = rows.get(tuple(output[:i]))
        if row is None:
            return total, tuple(output[:i])
        total += float(row[token])
    return total, tuple(output)


def _rows_of(tree: Draft, logits: torch.Tensor) -> Rows:
    """Return the rows of all prefixes in ``tree``, from its ``logits`` (n + 1, V)."""
    prefixes: list[tuple[int, ...]] = [()]
    for token, parent in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True):
        prefixes.append((*prefixes[parent + 1], token))
    rows = logits[: len(prefixes)].float().log_softmax(-1).cpu().numpy()
    return dict(zip(prefixes, rows, strict=True))


def _largest_tree(labels: Sequence[np.ndarray], most: int) -> Draft:
    """Return the trie of the first ``labels`` with at most ``most`` nodes, or of the first one."""
    nodes = set[tuple[int, ...]]()
    for count, label in enumerate(labels):
        nodes |= {tuple(label[: i + 1].tolist()) for i in range(len(label))}
        if count and len(nodes) > most:
            labels = labels[:count]
            break
    return next(trie_parts(labels, _MOST_NODES)).tree


@torch.inference_mode()
def _score(target: Target, prompts: Sequence[np.ndarray], part: Part, end: int) -> np.ndarray:
    """Return the log-probabilities (B, m) of a part's labels after the unread ``prompts``."""
    tree = part.tree
    trees = [after(prompt, (tree.tokens, tree.parents)) for prompt in prompts]
    skipped = min(map(len, prompts)) - 1
    logits = target.score([int(prompt[0]) for prompt in prompts], trees, skipped)
    tokens, rows = torch.from_numpy(tree.tokens).long(), torch.from_numpy(tree.parents + 1).long()
    label_scores = np.empty((len(prompts), len(part.labels)))
    for scores, prompt, rows_of_tree in zip(label_scores, prompts, logits, strict=True):
        root = len(prompt) - 1 - skipped
        rows_of_tree = rows_of_tree[root : root + 1 + len(tree)].float()
        total = rows_of_tree.logsumexp(-1)
        ends = (rows_of_tree[:, end] - total).double().cpu().numpy()
        edges = (
            rows_of_tree[rows.to(rows_of_tree.device), tokens.to(rows_of_tree.device)]
            - total[rows.to(rows_of_tree.device)]
        )
        sums = [0.0]  # of each path from the root
        for parent, edge in zip(tree.parents.tolist(), edges.double().tolist(), strict=True):
            sums.append(sums[parent + 1] + edge)
        scores[:] = np.array(sums)[part.ends + 1] + ends[part.ends + 1]
    return label_scores


@dataclass(frozen=True)
class Choice:
    """The most probable label after a prompt, and the probability of each label."""

    label: str
    probabilities: dict[str, float]


def choose(
    model: PreTrainedModel | LoadedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    choices: Sequence[str],
    *,
    batch_size: int = 1,
) -> list[Choice]:
    """Choose one of ``choices`` for each prompt, by one forward that scores all of them.

    A label's score is the probability that the model writes it and then the end token; of equal
    scores the first label wins. Probabilities are normalised over the labels. Prompts and models as
    in ``generate``. Raises InputError for no labels, an empty label, or one that is given twice.
    """
    if isinstance(prompts, str):
        raise InputError("prompts is a single text: pass a list of texts or of token ids")
    check_labels(choices)
    ids = [ids_of(prompt, tokenizer, special=True) for prompt in prompts]
    ends = end_ids(plain_model(model), tokenizer.eos_token_id)
    if not ends:
        raise InputError("the tokenizer has no end token, which ends a label: set its eos_token")
    labels = Labels([ids_of(label, tokenizer) for label in choices], ends[0])
    with target_of(model, "off") as target:
        batches = [ids[i : i + batch_size] for i in range(0, len(ids), batch_size)]
        scores = [labels.scores(target, batch)[0] for batch in batches]
        rows = [softmax(row) for batch in scores for row in batch]
    return [
        Choice(choices[int(row.argmax())], dict(zip(choices, row.tolist(), strict=True)))
        for row in rows
    ]
