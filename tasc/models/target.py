"""The target model as the decoding loop sees it: prefill, score a tree, keep a path."""

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
from tasc.models.cache import Storage, tree_cache

_KEPT = {"full_attention", "sliding_attention", "chunked_attention"}  # as keys and values alone


def check_stateless(model: PreTrainedModel) -> set[str]:
    """Return the types of a model's layers, where config.json states them.

    Raises UnavailableError for layers that keep more than keys and values.
    """
    layers = set(getattr(model.config.get_text_config(), "layer_types", None) or ())
    if model._is_stateful or layers - _KEPT:
        raise UnavailableError(
            f"{type(model).__name__} has layers with a state, where rejected drafts would "
            "stay: decode it with transformers"
        )
    return layers


class Target:
    """One sequence on one model. Works with any causal language model whose layers all attend.

    The order of calls is ``prefill``, then (``score``, ``keep``) once a step. Rows are logits of
    shape (n + 1, V) on the model's device: row 0 after the last token, row i + 1 after node i.

    A sequence that is prefilled with ``hidden`` keeps the last hidden states of its latest forward
    in ``hidden``: (L, d) of the prompt, (n + 1, d) of a step, those that the LM head reads.
    """

    graphs = compiled = False  # whether steps are captured or compiled: see tasc.models.static

    def __init__(self, model: PreTrainedModel) -> None:
        """Take ``model`` into use: its attention is replaced by the tree attention, for good.

        Raises UnavailableError for a model that keeps more than keys and values, or whose attention
        is not transformers' to replace.
        """
        config = model.config.get_text_config()
        layers = check_stateless(model)
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
        self.storage: Storage
        self.watched = False
        self.states: torch.Tensor | None = None  # (B, q, d) of the latest watched forward

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

    @property
    def hidden(self) -> torch.Tensor:
        """The hidden states of the latest forward of a single sequence."""
        if self.states is None:
            raise InputError("no hidden states were kept: pass hidden=True to prefill")
        return self.states[0]

    @torch.inference_mode()
    def prefill(self, prompt: np.ndarray, room: int, *, hidden: bool = False) -> torch.Tensor:
        """Start a sequence: read ``prompt`` (L,) int32 and return the row (1, V) after it.

        ``room`` is how many further positions will be needed; the cache is allocated for them.
        """
        self.check(prompt, room)
        self.watched, self.states = hidden, None
        self.allocate(len(prompt) + room)
        ids = torch.from_numpy(prompt.astype(np.int64))[None].to(self.device)
        positions = torch.arange(len(prompt), device=self.device)[None]
        logits = self.forward(self.cache, ids, positions, None, 1)[0]
        self.storage.fill([len(prompt)])
        return logits

    def allocate(self, positions: int) -> None:
        """Make room for a sequence of ``positions``; the last one is forgotten."""
        self.cache, self.storage = tree_cache(self.layers, positions)

    @torch.inference_mode()
    def score(self, last: int, tokens: np.ndarray, parents: np.ndarray) -> torch.Tensor:
        """Return the rows (n + 1, V) of ``last`` and a tree of n nodes, in one forward."""
        length, n = self.storage.length, len(tokens)
        ids = torch.empty((1, n + 1), dtype=torch.int64)
        ids[0, 0] = last
        if n == 0:
            position = torch.full((1, 1), length)
            return self.forward(self.cache, ids.to(self.device), position.to(self.device), None)[0]
        ids[0, 1:] = torch.from_numpy(tokens)
        seen, offsets = tree_inputs(parents)
        mask = torch.ones((n + 1, length + n + 1), dtype=torch.bool)
        mask[:, length:] = torch.from_numpy(seen).view(n + 1, n + 1)
        positions = (torch.from_numpy(offsets) + length)[None]
        device = self.device
        return self.forward(
            self.cache, ids.to(device), positions.to(device), mask[None, None].to(device)
        )[0]

    def keep(self, path: Sequence[int] | np.ndarray) -> None:
        """Accept the token given to ``score`` and the nodes of ``path``; forget the other nodes."""
        self.storage.keep([path])

    def check(self, prompt: np.ndarray, room: int) -> None:
        """Raise InputError for a prompt (L,) that is empty, or too long with ``room`` to come."""
        if len(prompt) == 0:
            raise InputError("the prompt has no tokens: add some text to the prompt template")
        if self.max_positions and len(prompt) + room > self.max_positions:
            raise InputError(
                f"prompt of {len(prompt)} tokens plus {room} new ones exceeds the model's "
                f"{self.max_positions} positions: lower --max-new-tokens or shorten the prompt"
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
        if not self.watched:
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
