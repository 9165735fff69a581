"""Decoding steps of static shape, for CUDA graphs and torch.compile.

A step's tree is padded to a bucket of queries, and attention reads a bucket of cached positions
under a mask. One small buffer, ``inputs``, contains everything that changes between steps: tokens,
depths, 64-bit ancestor masks, and the number of accepted positions. The device computes mask and
positions from it, so a step is one copy and one replay.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from tasc.backend.tree import ancestor_bits
from tasc.errors import UnavailableError
from tasc.models.inputs import Tree
from tasc.models.target import Target

QUERIES = (1, 3, 5, 9, 17, 33, 65)  # the last token and its tree; larger trees run eagerly
KEYS = 256  # cached positions in the smallest bucket; each bucket is twice the previous one


class StaticTarget(Target):
    """A target whose steps of one sequence and at most 64 nodes have static shapes.

    The cache keeps its address from one sequence to the next, as captured graphs refer to it.
    Logits are valid until the next ``score``.
    """

    def __init__(
        self, model: PreTrainedModel, *, graphs: bool = True, compiled: bool = False
    ) -> None:
        """Capture each shape in a CUDA graph at its first use, if ``graphs``.

        ``compiled`` passes the forward through torch.compile first.
        """
        super().__init__(model)
        self.graphs, self.compiled = graphs, compiled
        self.run: Callable[..., torch.Tensor] = self.forward
        if compiled:
            # Each bucket is a shape, and torch stops compiling after eight by default.
            torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 64)
            self.run = torch.compile(self.forward, dynamic=False)
        config = model.config.get_text_config()
        self.windowed = getattr(config, "sliding_window", None) is not None
        self.steps: dict[tuple[int, int, bool], Step] = {}
        self.pool: Any = None  # memory shared by all graphs

    def allocate(self, capacity: int, size: int) -> None:
        needed = _keys(capacity + QUERIES[-1])
        known = getattr(self, "kv_cache", None)
        if size == 1 and known is not None and known.rows == 1 and known.capacity >= needed:
            known.clear()
        else:
            super().allocate(needed if size == 1 else capacity, size)

    @torch.inference_mode()
    def score(self, last: Sequence[int], trees: Sequence[Tree], skipped: int = 0) -> torch.Tensor:
        (tokens, parents), kv_cache = trees[0], self.kv_cache
        n, keys = len(tokens), _keys(kv_cache.length + QUERIES[-1])
        unusual = not kv_cache.blocks or skipped  # the first forward, or labels
        if unusual or kv_cache.rows > 1 or n >= QUERIES[-1] or keys > kv_cache.capacity:
            return super().score(last, trees, skipped)
        step = self.step(next(q for q in QUERIES if q > n), keys)
        bits, depths = ancestor_bits(parents)
        step.load(last[0], tokens, bits[:, 0] if n else bits.ravel(), depths, kv_cache.length)
        logits = step.logits()
        if self.capture_hidden:
            self.states = step.states[:, : n + 1]
        return logits[None, : n + 1]

    def step(self, queries: int, keys: int) -> "Step":
        """Return the step of a shape, created at first use and whenever the cache was replaced."""
        if self.steps and next(iter(self.steps.values())).data is not self.kv_cache.data:
            self.steps.clear()  # they refer to the old cache
            self.pool = None  # a pool that lost all its graphs accepts no new ones
        key = queries, keys, self.capture_hidden  # whether a graph stores hidden states is fixed
        if key not in self.steps:
            self.steps[key] = Step(self, queries, keys)
        return self.steps[key]


class Step:
    """One static shape: ``queries`` tokens over ``keys`` cached positions."""

    def __init__(self, target: StaticTarget, queries: int, keys: int) -> None:
        self.target, self.queries, self.keys = target, queries, keys
        assert target.kv_cache.blocks, "score comes after prefill"
        self.data = target.kv_cache.data
        # Tokens, ancestor bits, depths; then the number of accepted positions.
        cuda = target.device.type == "cuda"
        self.host = torch.zeros(3 * queries + 1, dtype=torch.int64, pin_memory=cuda)
        self.inputs = self.host.to(target.device) if cuda else self.host
        self.slots = torch.empty(queries, dtype=torch.int64, device=target.device)
        self.cache = Cache(layers=[_Layer(layer, self.slots, keys) for layer in self.data])
        self.graph: torch.cuda.CUDAGraph | None = None
        self.states: torch.Tensor  # (1, queries, d) hidden states, with capture_hidden

    def load(
        self, last: int, tokens: np.ndarray, bits: np.ndarray, depths: np.ndarray, length: int
    ) -> None:
        """Load a tree of n < ``queries`` nodes after ``length`` accepted tokens and ``last``."""
        buffer, n = self.host.numpy(), len(tokens)
        buffer[:-1] = 0  # padding sees what the last token sees, and nothing sees it
        ids, ancestors, depth = buffer[:-1].reshape(3, self.queries)
        ids[0], ids[1 : n + 1] = last, tokens
        ancestors[1 : n + 1], depth[1 : n + 1] = bits.view(np.int64), depths + 1
        buffer[-1] = length
        if self.inputs is not self.host:
            self.inputs.copy_(self.host, non_blocking=True)

    def logits(self) -> torch.Tensor:
        """Run the step; return logits (queries, V)."""
        if not self.target.graphs:
            return self.forward()
        if self.graph is None:
            self.graph, self.result = self._capture()
        self.graph.replay()
        return self.result

    def forward(self) -> torch.Tensor:
        """Run the step, reading only tensors whose address is fixed."""
        ids, bits, depths = self.inputs[:-1].view(3, self.queries)
        length = self.inputs[-1]
        self.slots.copy_(length + torch.arange(self.queries, device=length.device))
        positions = length + depths
        mask = tree_mask(bits, positions, length, self.keys, distances=self.target.windowed)
        # The hook that captures hidden states does not work under torch.compile.
        run = self.target.forward if self.target.capture_hidden else self.target.run
        logits = run(self.cache, ids[None], positions[None], mask[None, None])[0]
        if self.target.states is not None:
            self.states = self.target.states
        return logits

    def _capture(self) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        """Run twice on a side stream, so that libraries allocate and compile, then capture."""
        target = self.target
        try:
            target.pool = target.pool or torch.cuda.graph_pool_handle()
            side = torch.cuda.Stream(target.device)  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.forward()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=target.pool):
                logits = self.forward()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise UnavailableError(
                f"cannot capture this model's forward in a CUDA graph ({reason}): set graphs='off'"
            ) from error
        return graph, logits


class _Layer(DynamicLayer):  # type: ignore[misc]
    """A cache layer that writes at ``slots`` and returns the first ``keys`` positions."""

    is_compileable = True

    def __init__(self, data: torch.Tensor | None, slots: torch.Tensor, keys: int) -> None:
        """``data`` is None for a layer that shares the keys of another one."""
        super().__init__()
        if data is not None:
            self.keys, self.values = data[0], data[1]
        self.slots, self.shown = slots, keys
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        values = self.values[..., : value_states.shape[3]]
        self.keys.index_copy_(2, self.slots, key_states)
        values.index_copy_(2, self.slots, value_states)
        return self.keys[:, :, : self.shown], values[:, :, : self.shown]

    def get_seq_length(self) -> int:
        return 0  # positions are always passed

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002
        return self.shown, 0


def tree_mask(
    bits: torch.Tensor, positions: torch.Tensor, length: torch.Tensor, keys: int, *, distances: bool
) -> torch.Tensor:
    """Return the mask (q, keys) of q tokens written after ``length`` accepted positions.

    Bit i of ``bits`` (q,) int64 is set if node i is the token itself or an ancestor. All tokens see
    the accepted positions and the first token. ``positions`` (q,) int64 are the tokens'. With
    ``distances`` the mask is int32: the distance to a key in positions, negative if hidden.
    """
    key_positions = torch.arange(keys, device=bits.device)
    column = key_positions - length  # 0 is the last token, i + 1 is node i
    node = (column - 1).clamp(0, len(bits) - 1)
    seen = ((bits[:, None] >> node.clamp(max=63)) & 1).bool() & (column < len(bits))
    seen |= column <= 0
    if not distances:
        return seen
    inside = (column >= 0) & (column < len(bits))
    tree_positions = positions[column.clamp(0, len(bits) - 1)]
    key_positions = torch.where(inside, tree_positions, key_positions)
    return (positions[:, None] - key_positions).masked_fill(~seen, -1).int()


def _keys(positions: int) -> int:
    return KEYS << max((positions - 1) // KEYS, 0).bit_length()
