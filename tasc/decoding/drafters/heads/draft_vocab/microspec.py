"""MicroSpec's draft vocabulary: Algorithm 1 of arXiv:2605.26444, without the drafter."""

import copy
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tasc import _native
from tasc.decoding.drafters.heads.draft_vocab.frequent import Frequent
from tasc.decoding.drafters.heads.draft_vocab.window import Window
from tasc.decoding.verify.ops import native
from tasc.errors import InputError
from tasc.models.load import device_has_bfloat16
from tasc.options.bounds import MOST, Bounded, within

_PIECE = 64  # prompt positions whose logits (positions, V) are in memory at once
MAX_TOP = 64  # limit of the kernel, see kernels/include/tasc/argmax.h


@dataclass(frozen=True)
class WindowOptions(Bounded):
    """Size of the window (W_max), candidates per row of target logits (K_pre, K_ver), and sources.

    ``context`` adds the prompt with its candidates, ``extension`` the tokens of decoding; the
    ablations of the paper's Table 3 switch one of them off. ``tree`` takes K_ver candidates from
    every verified row, as in algorithm 1 (lines 19 and 27). ``tree=false`` takes them only from
    rows on the accepted path, as in section 3.2 ("on the validated branch"), which fills windows
    slowly.

    Two options beyond the paper help with prompts too short to fill the window. ``fill`` takes as
    many candidates per prompt position as fill it, but at least K_pre. ``frequent`` most frequent
    tokens (FR-Spec) are always active.
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
        super().__post_init__()
        if not self.frequent and not self.context and not (self.extension and self.k_ver):
            raise InputError(
                "without context, nothing enters the window: set extension=true and k_ver=1 or more"
            )


class MicroSpec:
    """The tokens of a sliding window, their rows packed into one dense matrix (section 3.3).

    A row keeps its slot while its token is in the window, so only rows of new tokens are copied.
    Free slots have the id -1 and the logit -inf. On CUDA, a second stream updates window and rows
    while the draft head's layer runs; shapes are static, because all ``window`` slots are
    multiplied; and nothing waits for the device. The CPU skips the slots after the last used one.

    Departs: the paper does not define the order in which candidates join the window. Here it is the
    order of nodes and positions, best first; the row of the bonus token counts as accepted.
    Committed tokens join, too: they are the best candidates when decoding greedily, but may be
    missing when sampling or with a logits processor.
    """

    def __init__(
        self,
        lm_head: nn.Linear,
        options: WindowOptions,
        ranking: nn.Linear | None = None,
        frequent: Frequent | None = None,
    ) -> None:
        """Take rows from ``lm_head`` (V, d), whose weight is shared, not copied.

        ``ranking`` replaces it to find candidates in the prompt, see ``quick``. The tokens of
        ``frequent`` are columns before the window's, which never contains them.
        """
        self.options, self.lm_head, self.ranking = options, lm_head, ranking or lm_head
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
        self._window = Window(vocabulary, size, device)
        self._buffer = self._weight.new_zeros(size, d)
        self._mask = self._weight.new_full((size,), -torch.inf)
        self._ids = torch.full((size,), -1, device=device)
        self._extent = size
        self._tree: Tensor | None = None
        if self._stream is not None:  # keep memory that the stream still uses from being reused
            for tensor in (*self._window.memory, self._buffer, self._mask, self._ids):
                tensor.record_stream(self._stream)

    @property
    def ids(self) -> Tensor:
        """(n,) int64: the token of each column, -1 where there is none."""
        window_ids = self._ids[: self._extent]
        return window_ids if self._frequent is None else torch.cat([self._frequent.ids, window_ids])

    @torch.inference_mode()
    def start(self, prompt: Tensor, hidden: Tensor) -> None:
        """Begin a sequence: S = prompt, then its candidates (equation 2)."""
        self._clear()
        if self.options.context:
            self._push(prompt, unique=False)
            o, rank = self.options, self.ranking
            if k := max(o.k_pre, o.window // len(prompt) - 1) if o.fill else o.k_pre:
                pieces = torch.split(hidden.to(rank.weight.dtype), _PIECE)
                best = [best_of(rank(piece), None, k) for piece in pieces]
                self._push(torch.cat(best), unique=True)
        self._pack()

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (m, n) of ``hidden`` (m, d), after the rows are in place."""
        if self._ready is not None:
            torch.cuda.current_stream(hidden.device).wait_event(self._ready)
        n = self._extent
        window_logits = torch.addmm(self._mask[:n], hidden, self._buffer[:n].T)
        return (
            window_logits
            if self._frequent is None
            else torch.cat([self._frequent.logits(hidden), window_logits], 1)
        )

    def drafted(self, tokens: Tensor) -> None:
        """Store the tree's tokens (n,) int64 until verification: drafting changes nothing."""
        self._tree = tokens

    @torch.inference_mode()
    def observe(self, tokens: Tensor, rows: Tensor, kept: Tensor) -> None:
        """Append to S the tree and the best tokens of ``rows``, or of ``rows[kept]`` (eq. 3)."""
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
            tokens.record_stream(self._stream)  # allocated on the compute stream

    def _pack(self) -> None:
        with self._beside():
            self._window.gather(self._weight, self._buffer)
            self._ids.copy_(self._window.ids)
            bias = self.lm_head.bias
            self._mask.copy_(bias.detach()[self._ids]) if bias is not None else self._mask.zero_()
            self._mask.masked_fill_(self._ids < 0, -torch.inf)
            if self._stream is not None:
                self._ready = self._stream.record_event()
        if self._weight.device.type == "cpu":
            self._extent = self._window.extent

    def _beside(self) -> AbstractContextManager[object]:
        """Run on the second stream, after the work queued on the current one."""
        if self._stream is None:
            return nullcontext()
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        return torch.cuda.stream(self._stream)


def quick(lm_head: nn.Linear) -> nn.Linear:
    """Return a bfloat16 copy of ``lm_head`` if the CPU multiplies bfloat16, else ``lm_head``.

    All positions of a prompt go through it, which takes five times as long in float32. Rounding
    affects the candidates for drafts, not the output.
    """
    weight = lm_head.weight
    if weight.is_cuda or weight.dtype != torch.float32 or not device_has_bfloat16(weight.device):
        return lm_head
    return copy.deepcopy(lm_head).requires_grad_(False).to(torch.bfloat16)


def best_of(rows: Tensor, which: Tensor | None, k: int) -> Tensor:
    """Return the ids (r * k,) of the ``k`` largest entries of each row, best first.

    ``rows`` (n, V); ``which`` (r,) int64 selects rows, None selects all. On the CPU, smaller ids
    win ties, and -1 pads rows with fewer entries.
    """
    if rows.device.type != "cpu" or k > MAX_TOP:
        rows = rows if which is None else rows[which]
        return rows.topk(min(k, rows.shape[-1]), dim=-1).indices.flatten()
    of = torch.arange(len(rows)) if which is None else which
    return torch.from_numpy(native(_native.top_ids, rows, of.numpy(), k))
