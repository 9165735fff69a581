"""The target model as the decoding loop sees it: read prompts, score trees, keep paths.

A sequence's keys lie at its own positions from 0 on, and a step writes behind the longest one, so
that every layer stores with one copy. What a shorter one has in between is stale: the mask hides
it, and the accepted tokens move down to their positions once a step, for all layers at once.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache
from transformers.utils import ModelOutput

from tasc.backend.tree import tree_inputs
from tasc.errors import InputError, UnavailableError
from tasc.models import attention
from tasc.models.cache import KVCache, tree_cache

Tree = tuple[np.ndarray, np.ndarray]  # tokens (n,) int32, parents (n,) int32


class Target:
    """Some sequences on one model: any causal language model whose layers all attend.

    ``begin`` once; then ``join`` and ``leave`` between steps, and (``score``, ``keep``) once a step
    for all sequences. They are numbered from 0 in the order of joining; one that leaves gives its
    number to the last. ``prefill`` begins with a single one.

    Sequences that join with ``hidden`` keep the last hidden states of the latest forward, those
    that the LM head reads, in ``states`` (B, q, d): in the order of ``join``'s prompts or of the
    sequences, padding behind each one's own.
    """

    graphs = compiled = False  # whether steps are captured or compiled: see tasc.models.static

    def __init__(self, model: PreTrainedModel) -> None:
        """Take ``model`` into use: its attention is replaced by the tree attention, for good.

        Raises UnavailableError for a model that keeps more than keys and values, or whose attention
        is not transformers' to replace.
        """
        config = model.config.get_text_config()
        layers = attention.check_stateless(model)
        own = model.config._attn_implementation
        self.own_attention = own if own != attention.NAME else "eager"  # which every model has
        if own != attention.NAME:
            model.set_attn_implementation(attention.register())
        if model.config._attn_implementation != attention.NAME:
            raise UnavailableError(
                f"{type(model).__name__} does not let its attention be replaced: decode it with "
                "transformers"
            )
        self.model = model.eval()
        self.device = model.device
        self.layers = int(config.num_hidden_layers)
        self.max_positions = int(getattr(config, "max_position_embeddings", 0) or 0)
        if "chunked_attention" in layers:  # positions of other chunks are not masked
            chunk = int(config.attention_chunk_size)
            self.max_positions = min(self.max_positions or chunk, chunk)
        self.kv_cache: KVCache
        self.capture_hidden = False
        self.states: torch.Tensor | None = None  # (B, q, d) of the latest capture_hidden forward

    @contextmanager
    def untouched(self) -> Iterator[PreTrainedModel]:
        """Lend the model with its own attention, as transformers would run it."""
        self.model.set_attn_implementation(self.own_attention)
        try:
            yield self.model
        finally:
            self.model.set_attn_implementation(attention.register())

    def any_tokens(self, count: int) -> np.ndarray:
        """Return ``count`` tokens (count,) int32 that are as unlike each other as may be."""
        vocabulary = int(self.model.config.get_text_config().vocab_size)
        return (np.arange(1, count + 1) * 7919 % vocabulary).astype(np.int32)

    def prefill(self, prompt: np.ndarray, room: int) -> torch.Tensor:
        """Begin with a single sequence; return the logits (1, V) after ``prompt`` (L,) int32.

        ``room`` is how many further positions will be needed; the cache is allocated for them.
        """
        self.check(prompt, room)
        self.begin(len(prompt) + room)
        return self.join([prompt])

    def begin(self, capacity: int, size: int = 1) -> None:
        """Forget all sequences; plan for ``size`` at a time, of ``capacity`` positions each."""
        if size < 1:
            raise InputError(f"a batch holds at least 1 sequence, got {size}")
        self.capture_hidden, self.states = False, None
        self.allocate(capacity, size)

    def allocate(self, capacity: int, size: int) -> None:
        """Make room for ``size`` sequences of ``capacity`` positions."""
        self.cache, self.kv_cache = tree_cache(self.layers, capacity, size)

    @torch.inference_mode()
    def join(self, prompts: Sequence[np.ndarray], *, hidden: bool = False) -> torch.Tensor:
        """Read ``prompts``, each (L_i,) int32, as new sequences; return their last logits (r, V).

        With ``hidden`` the states of this forward and of all that follow are kept.
        """
        kv_cache = self.kv_cache
        if len(kv_cache.lengths) + len(prompts) > kv_cache.rows:
            raise InputError(
                f"{len(prompts)} sequences cannot join {len(kv_cache.lengths)} in a batch of "
                f"{kv_cache.rows}"
            )
        self.capture_hidden = self.capture_hidden or hidden
        lengths = np.array([len(p) for p in prompts])
        ids = np.zeros((len(prompts), lengths.max()), np.int64)
        for row, prompt in zip(ids, prompts, strict=True):
            row[: len(prompt)] = prompt
        # Padding stands behind the prompts, where causal attention does not look: no mask.
        positions = torch.arange(ids.shape[1], device=self.device).expand(len(prompts), -1)
        last, which = np.unique(lengths - 1, return_inverse=True)
        kv_cache.open()
        logits = self.forward(
            self.cache,
            torch.from_numpy(ids).to(self.device),
            positions,
            None,
            torch.from_numpy(last).to(self.device),
        )
        kv_cache.fill(lengths.tolist())
        return logits[torch.arange(len(prompts)), torch.from_numpy(which)]

    @torch.inference_mode()
    def score(self, last: Sequence[int], trees: Sequence[Tree]) -> torch.Tensor:
        """Return the logits (B, 1 + n, V) of each one's ``last`` token and tree, in one forward.

        Row 0 is after the last token, row i + 1 after node i. n is the largest tree's number of
        nodes; behind the nodes of a smaller one stands padding.
        """
        lengths, start = self.kv_cache.lengths, self.kv_cache.length
        queries = 1 + max(len(tokens) for tokens, _ in trees)
        ids = np.zeros((len(trees), queries), np.int64)
        ids[:, 0] = last
        positions = np.repeat(lengths[:, None], queries, axis=1)
        mask = None
        if queries > 1 or lengths.min() < start:
            mask = self._mask(queries)
            for row, (tokens, parents) in enumerate(trees):
                n = len(tokens)
                seen, depths = tree_inputs(parents)
                ids[row, 1 : 1 + n] = tokens
                positions[row, : 1 + n] += depths
                mask[row, 0, : 1 + n, start : start + 1 + n] = seen
        return self.forward(
            self.cache,
            torch.from_numpy(ids).to(self.device),
            torch.from_numpy(positions).to(self.device),
            None if mask is None else torch.from_numpy(mask).to(self.device),
        )

    def _mask(self, queries: int) -> np.ndarray:
        """(B, 1, q, k): each query sees its own accepted tokens and itself, padding as well.

        A query that saw nothing would yield NaN, and write it into the cache.
        """
        lengths, start = self.kv_cache.lengths, self.kv_cache.length
        mask = np.zeros((len(lengths), 1, queries, start + queries), np.bool_)
        mask[..., :start] = np.arange(start) < lengths[:, None, None, None]
        mask[..., start:] = np.eye(queries, dtype=np.bool_)
        return mask

    def keep(self, paths: Sequence[Sequence[int] | np.ndarray]) -> None:
        """Accept each one's last token and the nodes of its path; forget the other nodes."""
        self.kv_cache.keep(paths)

    def leave(self, sequence: int) -> None:
        """Forget a sequence; the last one gets its number."""
        self.kv_cache.drop(sequence)

    def check(self, prompt: np.ndarray, room: int) -> None:
        """Refuse a prompt (L,) that is empty, of other tokens, or too long with ``room`` to come.

        Raises InputError.
        """
        if len(prompt) == 0:
            raise InputError("the prompt has no tokens: add some text to the prompt template")
        self.check_ids(prompt, "the prompt")
        if self.max_positions and len(prompt) + room > self.max_positions:
            raise InputError(
                f"prompt of {len(prompt)} tokens plus {room} new ones exceeds the model's "
                f"{self.max_positions} positions: lower --max-new-tokens or shorten the prompt"
            )

    def check_ids(self, tokens: np.ndarray, what: str) -> None:
        """Raise InputError where ``what``, ids (L,), has a token that the model has no row for."""
        rows = self.model.get_input_embeddings().weight.shape[0]
        wrong = tokens[(tokens < 0) | (tokens >= rows)]
        if len(wrong):
            raise InputError(
                f"{what} has token id {wrong[0]}, and the model {rows} rows: give the model's own "
                "tokenizer"
            )

    def forward(
        self,
        cache: Cache,
        ids: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor | None,
        rows: int | torch.Tensor = 0,
    ) -> torch.Tensor:
        """Run the model on ``ids`` (B, q) at ``positions`` (B, q) after what ``cache`` holds.

        ``mask`` is as in ``attention.attend``. Returns logits (B, r, V): of the ``rows`` last
        tokens, 0 for all, or of the tokens that an index (r,) names.
        """
        with self._watching():
            out = self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=rows,
            )
        logits: torch.Tensor = out.logits
        return logits

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Keep what the model's body returns meanwhile, if it was asked for."""
        if not self.capture_hidden:
            yield
            return

        def see(_module: object, _inputs: object, out: ModelOutput) -> None:
            self.states = out.last_hidden_state

        # Not the base model: OPT calls what is in it by itself.
        handle = self.model.get_decoder().register_forward_hook(see)
        try:
            yield
        finally:
            handle.remove()
