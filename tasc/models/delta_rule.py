"""The gated delta rule over a draft (Yang et al., 2024, "Gated Delta Networks", section 3.3).

A state S (keys x values) of one head is updated by S_t = a_t S_{t-1} + k_t u_t', where u_t = b_t
(v_t - a_t S_{t-1}' k_t). All u_t of a draft solve one triangular system, so S is read once per
forward, instead of once per token, and the state after any token is a sum over the tokens before.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

_RULE = "torch_chunk_gated_delta_rule"  # of transformers: the rule for several tokens


@dataclass(frozen=True, eq=False)
class DeltaStates:
    """The states after each token of a forward, computed on demand."""

    before: torch.Tensor  # (1, H, keys, values) float32
    keys: torch.Tensor  # (1, H, n, keys)
    updates: torch.Tensor  # (1, H, n, values)
    decay: torch.Tensor  # (1, H, n): logarithm of the product of decays up to each token

    def after(self, count: int) -> torch.Tensor:
        """Return the state (1, H, keys, values) after the first ``count`` tokens."""
        decay = self.decay[..., :count, None]
        last = decay[..., -1:, :]
        keys = self.keys[:, :, :count] * (last - decay).exp()
        return self.before * last.exp() + keys.mT @ self.updates[:, :, :count]


def delta_rule(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    **_options: object,
) -> tuple[torch.Tensor, DeltaStates]:
    """Return the outputs (1, n, H, values) of n tokens, and the states after each.

    Arguments as of transformers' rule: queries and keys (1, n, heads, keys), which are normalized
    here, values (1, n, H, values), logarithms of decays and learning rates (1, n, H).
    """
    repeats = value.shape[2] // key.shape[2]
    query, key = (
        x.float() * torch.rsqrt(x.float().square().sum(-1, keepdim=True) + 1e-6)
        for x in (query, key)
    )
    query, key = (x.repeat_interleave(repeats, dim=2).transpose(1, 2) for x in (query, key))
    query = query * query.shape[-1] ** -0.5
    values, rates, decay = (x.float().transpose(1, 2) for x in (value, beta, g))
    state, decay = initial_state.float(), decay.cumsum(-1)
    between = (decay[..., :, None] - decay[..., None, :]).tril().exp().tril()
    both = torch.cat([key, query], 2)
    old_key, old_query = (both @ state * decay.exp().repeat(1, 1, 2)[..., None]).chunk(2, 2)
    key_key, query_key = (both @ key.mT * between.repeat(1, 1, 2, 1)).chunk(2, 2)
    rates = rates[..., None]
    updates = torch.linalg.solve_triangular(
        key_key * rates, (values - old_key) * rates, upper=False, unitriangular=True
    )
    outputs = old_query + query_key @ updates
    states = DeltaStates(state, key, updates, decay)
    return outputs.transpose(1, 2).to(value.dtype), states


@contextmanager
def delta_rules(modules: Iterable[nn.Module]) -> Iterator[set[nn.Module]]:
    """Replace the rule in the files of gated delta nets during the block; yield those nets."""
    files = {module: vars(sys.modules[type(module).__module__]) for module in modules}
    files = {module: names for module, names in files.items() if _RULE in names}
    own = [(names, names[_RULE]) for names in {id(n): n for n in files.values()}.values()]
    for names, _ in own:
        names[_RULE] = delta_rule
    try:
        yield set(files)
    finally:
        for names, rule in own:
            names[_RULE] = rule
