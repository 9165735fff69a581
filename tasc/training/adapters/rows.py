"""Trained rows of an embedding or LM head, without copies of the whole matrix."""

from typing import Any, NamedTuple

import torch
from peft.tuners.trainable_tokens import TrainableTokensLayer
from torch import Tensor
from torch.nn.functional import embedding, linear


class WrittenRows(NamedTuple):
    """A weight that contains trained rows, and the rows themselves."""

    weight: Tensor  # (V, d), frozen
    ids: Tensor  # (R,) int64, of the trained rows, in order
    rows: Tensor  # (R, d), with gradients


class Rows(TrainableTokensLayer):  # type: ignore[misc]
    """PEFT's layer, which copies the weight and computes a gradient of all rows, without that.

    The trained rows are written into the frozen weight; outputs and gradients stay the same.
    """

    def forward_adapters(self, x: Tensor, *_: Any, **__: Any) -> Tensor:  # noqa: ANN401
        """Embed ids ``x`` (B, L), or return logits (B, L, V) of states ``x`` (B, L, d)."""
        layer = self.get_base_layer()
        weight, ids, rows = self.written()
        out: Tensor = layer(x)
        # Add zeros with the gradients of the rows.
        if not isinstance(layer, torch.nn.Embedding):
            trained = linear(x.detach(), rows.to(weight))
            return out.index_add_(-1, ids, trained - trained.detach())  # its logits are large
        place = torch.searchsorted(ids, x).clamp(max=len(ids) - 1)
        padding = -1 if layer.padding_idx is None else layer.padding_idx  # PEFT does not train it
        trains = (ids[place] == x) & (x != padding)
        scale = self._get_embed_scale()
        trained = embedding(place, rows.to(weight)) * trains[..., None]
        return out + (trained - trained.detach()) * (1 if scale is None else scale.to(trained))

    def written(self) -> WrittenRows:
        """Write the trained rows into the frozen weight, or the original ones if disabled."""
        (name,) = self.token_indices
        rows = self.trainable_tokens_delta[name]
        if self.disable_adapters:
            rows = self.trainable_tokens_original[name]
        weight = self.get_base_layer().weight.data
        ids = torch.tensor(self.token_indices[name], device=weight.device)
        weight.index_copy_(0, ids, rows.data.to(weight))
        return WrittenRows(weight, ids, rows)
