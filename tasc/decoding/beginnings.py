"""Beginnings of prompts, read before their sequences join: long ones in pieces, shared ones once.

A beginning is read into a cache of its own, and copied when a sequence joins. So sequences that are
decoded wait for a piece at most, and with packed layers all logits keep their bits.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence

import numpy as np
import torch

from tasc.models.cache import tree_cache
from tasc.models.inputs import Prefix
from tasc.models.target import Target

PIECE = 128  # tokens that are read between two steps
_WORTHWHILE = 32  # tokens: reading fewer costs about as much as copying their keys
_COMPARED = 16  # recent prompts
_MOST = 32  # beginnings that are remembered


class Beginnings:
    """Reads prompts for one engine, whose drafters use no hidden states."""

    def __init__(self, target: Target, room: int, piece: int = PIECE) -> None:
        """Read at most ``piece`` tokens at a time, and remember ``room`` tokens for later prompts.

        ``room`` is at least the length of a prompt. A target with a recurrent state reads each
        prompt whole.
        """
        self.target, self.room, self.piece = target, room, piece
        self.fewest = min(_WORTHWHILE, piece)  # tokens that are read apart from the rest
        self.remembered = OrderedDict[bytes, Prefix]()  # the one used last comes last
        self.recent = deque[np.ndarray](maxlen=_COMPARED)
        self.reading: Reading | None = None
        self.joined = False  # whether prompts joined in the last step

    def prepare(self, prompts: Sequence[np.ndarray], *, beside: bool) -> int:
        """Return how many of the first ``prompts``, each (L,) int32, may join in this step.

        It may be none: a piece was read, or it is the turn of the sequences ``beside`` them.
        """
        if self.target.chains_only:
            return len(prompts)
        if self.joined and beside:
            self.joined = False
            return 0
        if not self._is_read(prompts[0]):
            return 0
        start = self._longest_remembered(prompts[0])
        joining = self._together(prompts, start)
        self.target.prefix = start
        self.recent.extend(prompts[:joining])
        self.joined = True
        return joining

    def clear(self) -> None:
        """Forget all, such as after an error."""
        self.reading, self.joined = None, False
        self.remembered.clear()
        self.recent.clear()

    def _together(self, prompts: Sequence[np.ndarray], start: Prefix | None) -> int:
        """Return how many prompts can be read at once after ``start``, of the first."""
        count, unread, before = 0, 0, _length(start)
        for prompt in prompts:
            read = _length(self._longest_remembered(prompt))
            unread += len(prompt) - before
            same = read == before and (start is None or start.begins([prompt]))
            if count and (not same or unread > self.piece or self._goal(prompt) > read):
                break
            count += 1
        return count

    def _is_read(self, prompt: np.ndarray) -> bool:
        """Return whether the beginning of ``prompt`` is read; if not, read a piece of it."""
        reading = self.reading
        if reading is None or not _begins(reading.tokens, prompt):
            self.reading = None
            goal = self._goal(prompt)
            start = self._longest_remembered(prompt)
            if goal <= _length(start):
                return True
            reading = self.reading = Reading(self.target, prompt[:goal].copy(), start)
        reading.go_on(self.piece)
        if reading.is_complete:
            self._remember(reading.prefix)
            self.reading = None
        return False

    def _goal(self, prompt: np.ndarray) -> int:
        """Return how many tokens of ``prompt`` are to be read before it joins."""
        read = _length(self._longest_remembered(prompt))
        shared = max((_common(other, prompt) for other in self.recent), default=0)
        if shared >= read + self.fewest:
            read = shared
        if len(prompt) - read > self.piece:
            read += (len(prompt) - read - 1) // self.piece * self.piece
        return read

    def _longest_remembered(self, prompt: np.ndarray) -> Prefix | None:
        """Return the longest beginning of ``prompt`` that is remembered, also a part of one."""
        best, length = None, self.fewest - 1
        for key, prefix in self.remembered.items():
            if (common := _common(prefix.tokens, prompt)) > length:
                best, length = key, common
        if best is None:
            return None
        self.remembered.move_to_end(best)
        whole = self.remembered[best]
        if length == len(whole.tokens):
            return whole
        blocks = {kind: block[..., :length, :] for kind, block in whole.blocks.items()}
        return Prefix(whole.tokens[:length], blocks, None)

    def _remember(self, prefix: Prefix) -> None:
        for key in [k for k, p in self.remembered.items() if _begins(p.tokens, prefix.tokens)]:
            del self.remembered[key]
        self.remembered[prefix.tokens.tobytes()] = prefix
        while len(self.remembered) > 1 and (len(self.remembered) > _MOST or self._size > self.room):
            self.remembered.popitem(last=False)

    @property
    def _size(self) -> int:
        return sum(len(prefix.tokens) for prefix in self.remembered.values())


class Reading:
    """A beginning (P,) int32 that is read in pieces, after ``start``, a part of it."""

    def __init__(self, target: Target, tokens: np.ndarray, start: Prefix | None) -> None:
        self.target, self.tokens = target, tokens
        self.cache, self.kv_cache = tree_cache(target.kinds, len(tokens))
        self.read = _length(start)
        blocks: dict[Hashable, torch.Tensor] = {} if start is None else dict(start.blocks)
        self.kv_cache.open(1, blocks)
        self.kv_cache.fill([self.read])

    @property
    def is_complete(self) -> bool:
        return self.read == len(self.tokens)

    @property
    def prefix(self) -> Prefix:
        """The beginning, as sequences use it."""
        return Prefix(self.tokens, self.kv_cache.blocks, None)

    @torch.inference_mode()
    def go_on(self, most: int) -> None:
        """Read at most ``most`` more tokens."""
        end = min(self.read + most, len(self.tokens))
        ids = torch.from_numpy(self.tokens[self.read : end]).long()[None]
        positions = torch.arange(self.read, end)[None]
        device = self.target.device
        self.target.forward(self.cache, ids.to(device), positions.to(device), None, 1)
        self.kv_cache.advance(end - self.read)
        self.read = end


def _length(prefix: Prefix | None) -> int:
    return 0 if prefix is None else len(prefix.tokens)


def _common(tokens: np.ndarray, prompt: np.ndarray) -> int:
    """Return with how many of ``tokens`` (P,) a ``prompt`` (L,) begins, without its last one."""
    length = min(len(tokens), len(prompt) - 1)
    unequal = np.flatnonzero(tokens[:length] != prompt[:length])
    return int(unequal[0]) if len(unequal) else length


def _begins(tokens: np.ndarray, prompt: np.ndarray) -> bool:
    return len(tokens) <= len(prompt) and np.array_equal(tokens, prompt[: len(tokens)])
