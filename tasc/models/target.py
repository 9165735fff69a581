"""The target model of the decoding loop: read prompts, score trees, keep paths."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.utils import ModelOutput

from tasc.errors import InputError
from tasc.models import attention
from tasc.models.cache import KVCache, cache_argument, tree_cache
from tasc.models.certified_head import CertifiedHead, certified_head
from tasc.models.cost_model import LONGEST_CHAIN
from tasc.models.folder.adapters import check_adapters
from tasc.models.inputs import Prefix, Tree, after, step_inputs
from tasc.models.invariant import invariant_forward
from tasc.models.layers import fuse, unfuse
from tasc.models.packed import is_packed, native_threads
from tasc.models.ragged import Ragged


class Target:
    """A batch of sequences on one causal language model whose layers are all attention layers.

    Call ``begin`` once, ``join`` and ``leave`` between steps, and ``score`` and ``keep`` once per
    step for all sequences. Sequences are numbered from 0 in the order of joining; when one leaves,
    the last one takes its number. ``prefill`` begins with a single sequence.

    Once a sequence joined with ``hidden``, ``states`` (B, q, d) are the last hidden states, which
    the LM head reads, of the latest forward: in the order of ``join``'s prompts or of the
    sequences, padded at the end.
    """

    graphs = compiled = False  # whether steps are captured or compiled (tasc.models.static)
    chains_only = False  # whether each tree must be a chain (tasc.models.stateful)
    drafts_first = True  # whether a prompt can be read together with a draft
    invariant = False  # whether forwards use the kernels of tasc.models.invariant

    def __init__(self, model: PreTrainedModel, *, fused: bool = True) -> None:
        """Replace the attention of ``model`` by tree attention, permanently.

        Layers that can run in one native call do so if ``fused``. Raises UnavailableError for a
        model whose attention transformers cannot replace, that stores more than keys and values,
        unless ``chains_only``, or with adapters that drafts cannot follow.
        """
        check_adapters(model)
        if not self.chains_only:
            attention.check_stateless(model)
        own = model.config._attn_implementation
        self.own_attention = own if own != attention.NAME else "eager"  # every model has it
        attention.replace(model)
        self.model = model.eval()
        if fused:
            fuse(model)
        else:
            unfuse(model)
        self.cache_argument = cache_argument(model)
        self.device = model.device
        self.flattens = self.device.type == "cpu" and not self.chains_only  # see tasc.models.ragged
        self.kinds = attention.layer_kinds(model)
        self.max_positions = attention.most_positions(model)
        self.kv_cache: KVCache
        self.prefix: Prefix | None = None
        self.capture_hidden = False
        self.states: Tensor | None = None  # (B, q, d) of the latest capture_hidden forward

    @property
    def bitwise(self) -> bool:
        """Whether a row's logits have the same bits alone, in a tree and in a batch."""
        return self.invariant or is_packed(self.model)

    @cached_property
    def head(self) -> CertifiedHead | None:
        """What finds the largest logits faster than the LM head. The first use drops sequences."""
        if self.compiled:
            return None
        return certified_head(self.model, lambda: self.prefill(self.any_tokens(1), 1))

    @contextmanager
    def untouched(self) -> Iterator[PreTrainedModel]:
        """Yield the model with its own attention, and without its defaults for ``generate``."""
        configured, self.model.generation_config = self.model.generation_config, GenerationConfig()
        self.model.set_attn_implementation(self.own_attention)
        try:
            yield self.model
        finally:
            self.model.generation_config = configured
            self.model.set_attn_implementation(attention.register())

    def any_tokens(self, count: int) -> np.ndarray:
        """Return ``count`` arbitrary tokens (count,) int32, as different as possible."""
        vocabulary = int(self.model.config.get_text_config().vocab_size)
        return (np.arange(1, count + 1) * 7919 % vocabulary).astype(np.int32)

    def prefill(self, prompt: np.ndarray, room: int) -> Tensor:
        """Begin with one ``prompt`` (L,) int32 and ``room`` after it; return its logits (1, V)."""
        self.check(prompt, room)
        self.begin(len(prompt) + room)
        return self.join([prompt])

    def begin(self, capacity: int, size: int = 1) -> None:
        """Drop all sequences; plan for up to ``size``, of ``capacity`` positions each."""
        if size < 1:
            raise InputError(f"a batch needs at least 1 sequence, got {size}")
        self.capture_hidden, self.states = False, None
        self.allocate(capacity, size)

    def allocate(self, capacity: int, size: int) -> None:
        """Create the cache for ``size`` sequences of ``capacity`` positions."""
        self.cache, self.kv_cache = tree_cache(self.kinds, capacity, size)
        self.size = size

    @property
    def shared(self) -> int:
        """Number of tokens that ``share`` read."""
        return 0 if self.prefix is None else len(self.prefix.tokens)

    @torch.inference_mode()
    def share(self, tokens: np.ndarray) -> None:
        """Read ``tokens`` (P,) int32 once; prompts that begin with them read only the rest.

        Replaces the tokens shared before; none are shared if P is 0 or the model has a recurrent
        state. Drops all sequences. With packed layers, logits keep their bits.
        """
        self.prefix = None
        if len(tokens) and not self.chains_only:
            self.check(tokens, 0)
            self.begin(len(tokens))
            with native_threads(self.model):
                self.join([tokens], hidden=True)
            assert self.states is not None
            self.prefix = Prefix(tokens, self.kv_cache.row(0), self.states.clone())
            self.begin(1)

    @torch.inference_mode()
    def join(self, prompts: Sequence[np.ndarray], *, hidden: bool = False) -> Tensor:
        """Read ``prompts``, each (L_i,) int32, as new sequences; return their last logits (r, V).

        With ``hidden``, keep the hidden states of this forward and all later ones.
        """
        self._check_fits(len(prompts), len(self.kv_cache.lengths))
        self.capture_hidden = self.capture_hidden or hidden
        lengths = np.array([len(p) for p in prompts])
        shared = self._shared_by(prompts)
        known = 0 if shared is None else len(shared.tokens)
        unread = [torch.from_numpy(prompt[known:]).long() for prompt in prompts]
        ids = pad_sequence(unread, batch_first=True).to(self.device)
        # No mask: causal attention does not see the padding after a prompt.
        positions = torch.arange(known, lengths.max(), device=self.device).expand(len(prompts), -1)
        last, which = np.unique(lengths - known - 1, return_inverse=True)
        self.kv_cache.open(len(prompts), {} if shared is None else shared.blocks)
        rows = torch.from_numpy(last).to(self.device)
        logits = self.forward(self.cache, ids, positions, None, rows)
        self.kv_cache.fill(lengths.tolist())
        self._prepend_shared(known)
        return logits[torch.arange(len(prompts)), torch.from_numpy(which)]

    def _check_fits(self, joining: int, present: int) -> None:
        if present + joining > self.size:
            raise InputError(f"{joining} sequences cannot join {present} in a batch of {self.size}")

    def _prepend_shared(self, known: int) -> None:
        """Put the states of the ``known`` shared tokens before the states of a later forward."""
        shared = None if self.prefix is None else self.prefix.states
        if known and shared is not None and self.states is not None:
            before = shared.expand(len(self.states), -1, -1)
            self.states = torch.cat([before, self.states], dim=1)

    def open_shared(self, prompts: Sequence[np.ndarray]) -> int:
        """Begin ``prompts`` with the shared tokens, if all have them; return their number."""
        if (shared := self._shared_by(prompts)) is None:
            return 0
        self.kv_cache.open(len(prompts), shared.blocks)
        return self.shared

    def _shared_by(self, prompts: Sequence[np.ndarray]) -> Prefix | None:
        return self.prefix if self.prefix is not None and self.prefix.begins(prompts) else None

    def restart(self, lengths: Sequence[int] | np.ndarray) -> None:
        """Go back to the first ``lengths`` (B,) tokens of each; after 0, ``score`` begins it."""
        self.kv_cache.clear()
        self.kv_cache.fill(list(lengths))

    def can_read(self, prompt: np.ndarray) -> bool:
        """Return whether ``read`` takes ``prompt`` (L,) into an empty batch: it is not too long."""
        return self.drafts_first and len(prompt) - self.shared <= LONGEST_CHAIN

    @torch.inference_mode()
    def read(self, prompt: np.ndarray, tree: Tree, *, hidden: bool = False) -> Tensor:
        """Begin an empty batch with ``prompt`` (L,) int32; score ``tree``: logits (1, 1 + n, V).

        It is one forward. Then all is as after ``score`` with the prompt's last token. ``hidden``
        is as for ``join``; the states are of the prompt, then of the tree.
        """
        self.capture_hidden = hidden
        known = self.open_shared([prompt])
        self.restart([known])
        before = len(prompt) - 1 - known
        logits = self.score([int(prompt[known])], [after(prompt[known:], tree)], before)
        self._advance(before)
        self._prepend_shared(known)
        return logits

    def _advance(self, count: int) -> None:
        """Keep the first ``count`` tokens of a forward of one sequence, before ``keep``."""
        self.kv_cache.advance(count)

    @torch.inference_mode()
    def score(self, last: Sequence[int], trees: Sequence[Tree], skipped: int = 0) -> Tensor:
        """Return the logits (B, 1 + n, V) of each sequence's ``last`` token and tree.

        Entry 0 is after the last token, entry i + 1 after node i. n is the size of the largest
        tree; smaller ones are padded at the end. The first ``skipped`` entries are left out.
        """
        sizes = [1 + len(tokens) for tokens, _ in trees]
        queries = max(sizes)
        flattens = self.flattens and not skipped and sum(sizes) < len(sizes) * queries
        lengths, start = self.kv_cache.lengths, self.kv_cache.length
        ids, positions, mask = step_inputs(last, trees, lengths, start, blind=flattens)
        inputs, at = (torch.from_numpy(each).to(self.device) for each in (ids, positions))
        visible = None if mask is None else torch.from_numpy(mask).to(self.device)
        if not flattens:
            rows: int | Tensor = queries - skipped if skipped else 0
            if skipped and self.capture_hidden:  # of all tokens: Gemma 4 drops some for a number
                rows = torch.arange(skipped, queries, device=self.device)
            return self.forward(self.cache, inputs, at, visible, rows)
        ragged = Ragged.of(sizes)
        logits = ragged.run(lambda i, p: self.forward(self.cache, i, p, visible), inputs, at)
        if self.states is not None:
            self.states = ragged.pad(self.states)
        return logits

    def keep(self, paths: Sequence[Sequence[int] | np.ndarray]) -> None:
        """Accept the last token of each sequence and the nodes of its path; drop other nodes."""
        self.kv_cache.keep(paths)

    def leave(self, sequence: int) -> None:
        """Drop a sequence; the last one takes its number."""
        self.kv_cache.drop(sequence)

    def check(self, prompt: np.ndarray, room: int) -> None:
        """Raise InputError for a prompt (L,) that is empty, invalid or, with ``room``, too long."""
        if len(prompt) == 0:
            raise InputError("the prompt has no tokens: add text to the prompt template")
        self.check_ids(prompt, "the prompt")
        if self.max_positions and len(prompt) + room > self.max_positions:
            raise InputError(
                f"a prompt of {len(prompt)} tokens plus {room} new ones exceeds the model's "
                f"{self.max_positions} positions: lower --max-new-tokens or shorten the prompt"
            )

    def check_ids(self, tokens: np.ndarray, what: str) -> None:
        """Raise InputError if ``tokens`` (L,), described by ``what``, exceed the embedding."""
        rows = self.model.get_input_embeddings().weight.shape[0]
        wrong = tokens[(tokens < 0) | (tokens >= rows)]
        if len(wrong):
            raise InputError(
                f"{what} has token id {wrong[0]}, but the model has {rows} embedding rows: use the "
                "model's own tokenizer"
            )

    def forward(
        self,
        cache: Cache,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        rows: int | Tensor = 0,
    ) -> Tensor:
        """Run the model on ``ids`` (B, q) at ``positions`` (B, q), after the contents of ``cache``.

        ``mask`` is as in ``attention.attend``. Returns logits (B, r, V) of the last ``rows``
        tokens (0 = all), or of the tokens at an index (r,).
        """
        kernels = invariant_forward() if self.invariant else nullcontext()
        hook: AbstractContextManager[object] = nullcontext()
        if self.capture_hidden:  # not on base_model, whose forward OPT bypasses
            hook = self.model.get_decoder().register_forward_hook(self._store_states)
        with kernels, hook:
            out = self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                use_cache=True,
                logits_to_keep=rows,
                **{self.cache_argument: cache},
            )
        logits: Tensor = out.logits
        return logits

    def _store_states(self, _module: object, _inputs: object, out: ModelOutput) -> None:
        self.states = out.last_hidden_state
