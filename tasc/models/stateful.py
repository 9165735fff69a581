"""Targets whose layers keep a state: convolutions, state-space models, gated delta nets.

A state contains all tokens that a layer has read, so rejected drafts must be taken out of it. Each
sequence has its own states, and a draft is a chain. A convolution's window is recorded over the
step and cut. A gated delta net reads the chain at once (``delta_rule``). Other recurrent layers
read it token by token (``recurrent``), and keep the state after each until the chain is verified.

A model without such layers can be decoded in this way, too, if it does not follow the positions or
the mask of a tree (``targets.fastest``).
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel, cache_utils

from tasc.errors import InputError
from tasc.models.cache import KVCache, KVLayer
from tasc.models.delta_rule import DeltaStates, delta_rules
from tasc.models.inputs import Tree
from tasc.models.recurrent import Attribute, Finder, HeldState, Recurrent
from tasc.models.target import Target

_Read = tuple[torch.Tensor, torch.Tensor | None]  # logits and hidden states of one sequence


class StatefulTarget(Target):
    """A target for models with stateful layers; its sequences run one after the other."""

    chains_only = True

    def __init__(self, model: PreTrainedModel, *, fused: bool = True) -> None:
        """Find the recurrent layers by running the model on two tokens."""
        super().__init__(model, fused=fused)
        self.sequences: list[_Decoded] = []
        self.attributes: list[list[Attribute]] = []  # of states outside the cache
        self.recurrent = self._find_recurrent()
        self.drafts_first = not self.recurrent and not self.attributes

    @torch.inference_mode()
    def _find_recurrent(self) -> dict[int, Recurrent]:
        with Finder(self.model) as finder:
            trial = _Decoded(self, 2)
            for layer, state in trial.states.items():
                if isinstance(state, StateLayer):
                    state.on_update = partial(finder.updated, layer)
            self._read(trial, self.any_tokens(2), last=1)
            self.attributes = finder.attributes()
        return finder.recurrent()

    def allocate(self, capacity: int, size: int) -> None:
        self.sequences, self.capacity, self.size = [], capacity, size

    @torch.inference_mode()
    def join(self, prompts: Sequence[np.ndarray], *, hidden: bool = False) -> torch.Tensor:
        self._check_fits(len(prompts), len(self.sequences))
        self.capture_hidden = self.capture_hidden or hidden
        joining = [_Decoded(self, self.capacity) for _ in prompts]
        outputs = [self._read(s, p, last=1) for s, p in zip(joining, prompts, strict=True)]
        for sequence, prompt in zip(joining, prompts, strict=True):
            sequence.keep(len(prompt))
        self.sequences += joining
        return self._padded(outputs)[:, 0]

    def restart(self, lengths: Sequence[int] | np.ndarray) -> None:
        if any(lengths):
            raise InputError("a state cannot be taken back: pass lengths of 0")
        self.sequences = [_Decoded(self, self.capacity) for _ in lengths]

    @torch.inference_mode()
    def score(self, last: Sequence[int], trees: Sequence[Tree], skipped: int = 0) -> torch.Tensor:
        outputs = []
        for sequence, token, (tokens, parents) in zip(self.sequences, last, trees, strict=True):
            if (parents != np.arange(-1, len(parents) - 1)).any():
                raise InputError(f"{type(self.model).__name__} decodes chains only: pass no trees")
            last_rows = len(tokens) + 1 - skipped if skipped else 0
            outputs.append(self._read(sequence, np.append(np.int32(token), tokens), last_rows))
        return self._padded(outputs)

    def _advance(self, count: int) -> None:
        self.sequences[0].kv_cache.fill([count])
        self.sequences[0].read -= count

    def keep(self, paths: Sequence[Sequence[int] | np.ndarray]) -> None:
        for sequence, path in zip(self.sequences, paths, strict=True):
            sequence.keep(len(path) + 1)

    def leave(self, sequence: int) -> None:
        self.sequences[sequence] = self.sequences[-1]
        self.sequences.pop()

    def _read(self, sequence: "_Decoded", tokens: np.ndarray, last: int = 0) -> _Read:
        """Return the logits (1, r, V) of the last tokens (0 = all), and the states (1, q, d)."""
        begin, count = sequence.kv_cache.length, len(tokens)
        sequence.settle(sequence.read)  # if nothing was kept, as where forwards are timed
        ids = torch.from_numpy(tokens.astype(np.int64))[None].to(self.device)
        positions = torch.arange(begin, begin + count, device=self.device)[None]
        with ExitStack() as stack:
            if begin and count > 1:
                stack.enter_context(self._marking(sequence, count))
            for state in sequence.states.values():
                if isinstance(state, HeldState):
                    stack.enter_context(state.loaded())
            logits = self.forward(sequence.cache, ids, positions, None, last)
        sequence.read = count
        return logits, self.states

    @contextmanager
    def _marking(self, sequence: "_Decoded", count: int) -> Iterator[None]:
        """Let recurrent layers keep their states after each of ``count`` tokens."""
        modules = [recurrent.module for recurrent in self.recurrent.values()]
        with ExitStack() as stack:
            at_once = stack.enter_context(delta_rules(modules))
            for layer, recurrent in self.recurrent.items():
                if recurrent.module not in at_once:
                    mark = sequence.states[layer].mark
                    stack.enter_context(recurrent.token_by_token(count, mark))
            yield

    def _padded(self, outputs: Sequence[_Read]) -> torch.Tensor:
        """Pad logits and hidden states of all sequences at the end, to (B, r, V) and (B, q, d)."""
        logits, states = zip(*outputs, strict=True)
        if self.capture_hidden:
            self.states = _stacked(states)
        return _stacked(logits)


def _stacked(each: Sequence[torch.Tensor]) -> torch.Tensor:
    if len(each) == 1:
        return each[0]
    return nn.utils.rnn.pad_sequence([one[0] for one in each], batch_first=True)


class _Decoded:
    """The cache of one sequence: keys, values and states of the tokens that it keeps."""

    def __init__(self, target: StatefulTarget, capacity: int) -> None:
        like = cache_utils.DynamicCache(config=target.model.config.get_text_config()).layers
        kind = cache_utils.CacheLayerMixin
        attention = [i for i, layer in enumerate(like) if isinstance(layer, kind)]
        self.kv_cache = KVCache([0] * len(attention), capacity)
        self.kv_cache.open(1)
        self.states: dict[int, StateLayer | HeldState] = {
            ~i: HeldState(attributes) for i, attributes in enumerate(target.attributes)
        }
        layers = list[Any](like)
        for i, layer in enumerate(like):
            if isinstance(layer, cache_utils.LinearAttentionCacheLayerMixin):
                own = StateLayer(layer.number_of_states)
                if i in attention:
                    own = _BothLayer(self.kv_cache, attention.index(i), layer.number_of_states)
                self.states[i] = layers[i] = own
            elif i in attention:
                layers[i] = KVLayer(self.kv_cache, attention.index(i))
        self.cache = _cache_class(target.model)(layers=layers)
        self.read = 0  # tokens of the last forward

    def keep(self, count: int) -> None:
        """Keep the first ``count`` tokens of the last forward; drop the others."""
        if len(self.kv_cache.lengths):
            self.kv_cache.advance(count)
        else:
            self.kv_cache.fill([count])
        self.settle(count)

    def settle(self, count: int) -> None:
        """Reduce the states to those after the first ``count`` tokens of the last forward."""
        if self.read:
            for state in self.states.values():
                state.keep(count, self.read)
        self.read = 0


def _cache_class(model: PreTrainedModel) -> type[cache_utils.Cache]:
    """Return the class of cache that a model accepts, which is its own for MiniMax."""
    names = vars(sys.modules[type(model).__module__]).values()
    own = [c for c in names if isinstance(c, type) and hasattr(c, "set_linear_cache")]
    return type(own[0].__name__, (_LinearCache, *own), {}) if own else cache_utils.Cache


class _LinearCache(cache_utils.Cache):  # type: ignore[misc]
    """A cache in which MiniMax's lightning attention keeps its state in our layers."""

    def __init__(self, layers: list[Any]) -> None:
        cache_utils.Cache.__init__(self, layers)
        self.linear_cache: list[Any] = []  # not used

    def set_linear_cache(self, layer: int, state: torch.Tensor) -> None:
        self.layers[layer].update_recurrent_state(state)

    def get_linear_cache(self, layer: int) -> torch.Tensor | None:
        state: torch.Tensor | None = self.layers[layer].recurrent_states[0]
        return state


class StateLayer(cache_utils.LinearAttentionLayer):  # type: ignore[misc]
    """Convolution windows and recurrent states of one layer, as transformers' models use them."""

    def __init__(self, states: int) -> None:
        super().__init__(number_of_states=states)
        self.record_past = True  # windows grow until ``keep`` cuts them
        self.on_update: Callable[[], None] | None = None
        self.marks: list[dict[int, torch.Tensor]] = []  # recurrent states after each token

    def update_recurrent_state(
        self, recurrent_states: torch.Tensor, state_idx: int = 0, **_kwargs: object
    ) -> torch.Tensor:
        """Store the new state, without the copy that CUDA graphs would need."""
        self.recurrent_states[state_idx] = recurrent_states
        self.is_recurrent_states_initialized[state_idx] = True
        if self.on_update is not None:
            self.on_update()
        return recurrent_states

    def mark(self) -> None:
        states = self.recurrent_states.items()
        self.marks.append({i: state.clone() for i, state in states if state is not None})

    def keep(self, count: int, read: int) -> None:
        """Take the states back to the first ``count`` of the ``read`` tokens of a forward."""
        for i, window in self.conv_states.items():
            if window is not None:
                end = window.shape[-1] - (read - count)
                begin = max(end - self.conv_kernel_size[i], 0)
                self.conv_states[i] = window[..., begin:end].clone()
        for i, state in self.recurrent_states.items():
            if isinstance(state, DeltaStates):
                self.recurrent_states[i] = state.after(count)
        if self.marks and count < read:
            self.recurrent_states.update(self.marks[count - 1])
        self.marks.clear()


class _BothLayer(StateLayer, KVLayer):
    """A layer with a state beside keys and values, such as Falcon-H1's."""

    def __init__(self, kv_cache: KVCache, index: int, states: int) -> None:
        KVLayer.__init__(self, kv_cache, index)
        StateLayer.__init__(self, states)
