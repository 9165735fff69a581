"""MicroSpec as a draft vocabulary: Algorithm 1 of arXiv:2605.26444 but for the drafter."""

import copy
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tasc import _native
from tasc.decoding.drafters.heads.draft_vocab.frequent import Frequent
from tasc.decoding.drafters.heads.draft_vocab.window import window
from tasc.decoding.verify.ops import native
from tasc.errors import InputError
from tasc.models.load import device_has_bfloat16
from tasc.options.bounds import MOST, Bounded, within

_PIECE = 64  # prompt positions whose logits (positions, V) exist at a time
MAX_TOP = 64  # that the kernel finds, see kernels/include/tasc/argmax.h


@dataclass(frozen=True)
class WindowOptions(Bounded):
    """The window's entries (W_max), candidates of each row of the target (K_pre, K_ver), sources.

    ``context`` is the prompt with its candidates, ``extension`` what decoding adds; the ablations
    of the paper's Table 3 go without one of them. ``tree`` takes K_ver candidates of every row that
    was verified, as algorithm 1 reads (lines 19 and 27); without it, of the rows on the accepted
    path alone, as section 3.2 reads ("on the validated branch"), which fills windows slowly.

    The paper's prompts fill a window; for shorter ones there are two more options, which it does
    not have. ``fill`` takes as many candidates of each position of the prompt as fill the window,
    K_pre at least. ``frequent`` tokens are active besides, always: the most frequent (FR-Spec).
    """

    window: int = within(3072, 1, 2**18)
    k_pre: int = within(3, 0, 2**12)
    k_ver: int = within(3, 0, 2**12)
    context: bool = True
    extension: bool = True
    tree: bool = True
    fill: bool = False
    frequent: int = within(0, 0, MOST)

    def __post_init__(self) -> None:
        """Refuse a vocabulary that would stay empty."""
        super().__post_init__()
        if not self.frequent and not self.context and not (self.extension and self.k_ver):
            raise InputError("without context, nothing enters the window: set k_ver=1 or more")


class MicroSpec:
    """The tokens of a sliding window, their rows packed into one dense matrix (section 3.3).

    A row stays where it is as long as its token is in the window, so only rows that entered are
    copied. Free slots in between have the id -1 and the logit -inf. On CUDA a second stream works
    on window and rows while the draft head's layer runs, all ``window`` slots are multiplied, so
    that shapes are static, and nothing waits for the device. On the CPU slots behind the last one
    in use are left out.

    Departs: the paper does not say in which order candidates join the window. Here they come in the
    order of nodes and positions, best first; the row of the bonus token is on the accepted path.
    What was committed joins, too: greedily it is the best anyway, but not under sampling or a
    logits processor.
    """

    def __init__(
        self,
        lm_head: nn.Linear,
        options: WindowOptions | None = None,
        ranking: nn.Linear | None = None,
        frequent: Frequent | None = None,
    ) -> None:
        """Draw rows from ``lm_head`` (V, d); its weight is shared, not copied.

        ``ranking`` finds the candidates of the prompt in its position, see ``quick``. The tokens of
        ``frequent`` are columns in front of the window's, which leaves them out.
        """
        self.options = options or WindowOptions()
        self.lm_head, self.ranking = lm_head, ranking or lm_head
        self._weight = lm_head.weight.detach()
        self._frequent = frequent
        if frequent is not None:
            self._outside = torch.ones(len(self._weight), dtype=torch.bool).to(self._weight.device)
            self._outside[frequent.ids] = False
        self._stream: torch.cuda.Stream | None = None
        self._ready: torch.cuda.Event | None = None
        if self._weight.is_cuda:
            self._stream = torch.cuda.Stream(self._weight.device)  # type: ignore[no-untyped-call]
        self._clear()

    def _clear(self) -> None:
        vocabulary, d = self._weight.shape
        size, device = self.options.window, self._weight.device
        self._window = window(vocabulary, size, device)
        self._buffer = self._weight.new_zeros(size, d)
        self._mask = self._weight.new_full((size,), -torch.inf)
        self._ids = torch.full((size,), -1, device=device)
        self._extent = size
        self._tree: Tensor | None = None
        if self._stream is not None:  # what it still works on is not given away when it is freed
            for held in (*self._window.memory, self._buffer, self._mask, self._ids):
                held.record_stream(self._stream)

    @property
    def ids(self) -> Tensor:
        """(n,) int64: the token of each column, -1 where there is none."""
        own = self._ids[: self._extent]
        return own if self._frequent is None else torch.cat([self._frequent.ids, own])

    @property
    def active(self) -> int:
        """The tokens in the window; waits for the device."""
        return self._window.active

    @torch.inference_mode()
    def start(self, prompt: Tensor, hidden: Tensor) -> None:
        """Begin a sequence: S = prompt, then its candidates (equation 2); see DraftVocabulary."""
        self._clear()
        if self.options.context:
            self._push(prompt, unique=False)
            if k := self._prefill_candidates(len(prompt)):
                rank = self.ranking
                pieces = torch.split(hidden.to(rank.weight.dtype), _PIECE)
                best = [best_of(rank(piece), None, k) for piece in pieces]
                self._push(torch.cat(best), unique=True)
        self._pack()

    def _prefill_candidates(self, length: int) -> int:
        """Return K_pre for a prompt of ``length`` tokens."""
        o = self.options
        return max(o.k_pre, o.window // length - 1) if o.fill else o.k_pre

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (m, n) of ``hidden`` (m, d), once the rows are in place."""
        if self._ready is not None:
            torch.cuda.current_stream(hidden.device).wait_event(self._ready)
        n = self._extent
        own = torch.addmm(self._mask[:n], hidden, self._buffer[:n].T)
        return own if self._frequent is None else torch.cat([self._frequent.logits(hidden), own], 1)

    def drafted(self, tokens: Tensor) -> None:
        """Remember the tree's tokens (n,) int64 until it is verified: drafting changes nothing."""
        self._tree = tokens

    @torch.inference_mode()
    def observe(self, tokens: Tensor, rows: Tensor, kept: Tensor) -> None:
        """Append to S the tree, and the best of ``rows`` (n + 1, V), or at ``kept`` (k,): eq. 3."""
        tree, self._tree = self._tree, None
        if not self.options.extension:
            return
        if tree is not None:
            self._push(tree, unique=True)
        candidates = [tokens]
        if self.options.k_ver:
            which = None if self.options.tree else kept
            candidates.insert(0, best_of(rows, which, self.options.k_ver).to(tokens.dtype))
        self._push(torch.cat(candidates), unique=True)
        self._pack()

    def _push(self, tokens: Tensor, unique: bool) -> None:
        tokens = tokens.to(torch.int32).contiguous()
        if self._frequent is not None:
            tokens = tokens.where((tokens >= 0) & self._outside[tokens.clamp(min=0)], -1)
        with self._beside():
            self._window.push(tokens, unique)
        if self._stream is not None:
            tokens.record_stream(self._stream)  # its memory is the compute stream's

    def _pack(self) -> None:
        """Bring buffer, mask and ids up to the window."""
        with self._beside():
            self._window.gather(self._weight, self._buffer)
            ids = self._window.ids
            self._ids.copy_(ids)
            bias = self.lm_head.bias
            self._mask.copy_(bias.detach()[self._ids]) if bias is not None else self._mask.zero_()
            self._mask.masked_fill_(ids < 0, -torch.inf)
            if self._stream is not None:
                self._ready = self._stream.record_event()
        if self._weight.device.type == "cpu":
            self._extent = self._window.extent

    def _beside(self) -> AbstractContextManager[object]:
        """Work on the second stream, behind what the current one was given so far."""
        if self._stream is None:
            return nullcontext()
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        return torch.cuda.stream(self._stream)


def quick(lm_head: nn.Linear) -> nn.Linear:
    """Return ``lm_head`` as it ranks fastest: a copy in bfloat16 where a CPU multiplies those.

    All positions of a prompt go through the head, which takes five times as long in float32. What
    rounding changes are candidates for drafts, not outputs.
    """
    weight = lm_head.weight
    if weight.is_cuda or weight.dtype != torch.float32 or not device_has_bfloat16(weight.device):
        return lm_head
    return copy.deepcopy(lm_head).requires_grad_(False).to(torch.bfloat16)


def best_of(rows: Tensor, which: Tensor | None, k: int) -> Tensor:
    """Return the ids (r * k,) of the ``k`` largest entries of each row, best first.

    ``rows`` (n, V); ``which`` (r,) int64 are those asked for, None for all. On the CPU smaller ids
    come first on ties, and -1 stands for entries that do not exist.
    """
    if rows.device.type != "cpu" or k > MAX_TOP:
        rows = rows if which is None else rows[which]
        return rows.topk(min(k, rows.shape[-1]), dim=-1).indices.flatten()
    of = torch.arange(len(rows)) if which is None else which
    return torch.from_numpy(native(_native.top_ids, rows, of.numpy(), k))
