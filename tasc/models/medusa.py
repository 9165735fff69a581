"""The heads of Medusa: each reads the target's hidden state and says what comes a token later.

Cai et al., "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads"
(2024), section 2.1.1: head k makes of the last hidden state at position i the distribution of token
i + 1 + k, by a residual block and an LM head. Departs: what is trained here shares the target's own
LM head, frozen, as another one a head would outweigh a small model with a large vocabulary.
Published heads are read with theirs or without; the names of the weights are those of the
checkpoints.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from transformers import PreTrainedModel

from tasc.errors import InputError, IntegrityError
from tasc.models.folder import head_files

HEADS, LAYERS = "medusa_num_heads", "medusa_num_layers"  # what their config.json states


class MedusaHeads(nn.Module):
    """``count`` residual blocks, x + SiLU(W x + b); untrained ones change nothing.

    ``lm_heads`` (count, V, d) are the heads' own, None where the target's serves all.
    """

    lm_heads: Tensor | None

    def __init__(self, count: int, hidden_size: int, lm_heads: Tensor | None = None) -> None:
        """Make untrained heads for states of ``hidden_size`` numbers."""
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count, hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.zeros(count, hidden_size))
        self.register_buffer("lm_heads", lm_heads)

    @property
    def count(self) -> int:
        """How many heads there are."""
        return self.weight.shape[0]

    def forward(self, hidden: Tensor) -> Tensor:
        """Return each head's states (heads, n, d), for an LM head, of ``hidden`` (n, d)."""
        spread = hidden.expand(self.count, -1, -1)
        return hidden + silu(torch.baddbmm(self.bias[:, None], spread, self.weight.transpose(1, 2)))

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors under Medusa's names."""
        config = {HEADS: self.count, LAYERS: 1, "hidden_size": self.weight.shape[1]}
        parts: dict[str, Tensor] = {"0.linear.weight": self.weight, "0.linear.bias": self.bias}
        if self.lm_heads is not None:
            parts["1.weight"] = self.lm_heads
        weights = {f"{k}.{n}": t[k] for k in range(self.count) for n, t in parts.items()}
        head_files.write(folder, config, weights)


def new_medusa(model: PreTrainedModel, count: int) -> MedusaHeads:
    """Return ``count`` untrained heads for ``model``, on its device and in its dtype."""
    d = model.get_output_embeddings().weight.shape[1]
    return MedusaHeads(count, d).to(model.device, model.dtype).eval()


def is_medusa(path: Path) -> bool:
    """Say whether the head in ``path`` is one of Medusa's, by its config.json."""
    return HEADS in head_files.config(path)


def load_medusa(path: Path, model: PreTrainedModel) -> MedusaHeads:
    """Load the heads in ``path`` for ``model``: ours, or a published Medusa-1/2 checkpoint.

    Raises InputError where there are none in safetensors, or they are of another kind or target,
    IntegrityError where weights are missing.
    """
    folder = head_files.find(path)
    config, weights = head_files.read(folder)
    if HEADS not in config:
        raise InputError(
            f"draft head {folder} holds no Medusa heads: train them with "
            "tasc finetune --draft-head --head medusa, or decode with the method eagle"
        )
    if config.get(LAYERS, 1) != 1:
        raise InputError(
            f"draft head {folder}: heads of {str(config[LAYERS])[:60]} residual blocks, those of "
            "one are read: give another, or train one with tasc finetune --draft-head --head medusa"
        )
    count = sum(name.endswith(".0.linear.weight") for name in weights)  # configs state others
    blocks, biases = (_stacked(folder, weights, count, f"0.linear.{n}") for n in ("weight", "bias"))
    own = _stacked(folder, weights, count, "1.weight") if "0.1.weight" in weights else None
    found = {"weight": blocks, "bias": biases} | ({} if own is None else {"lm_heads": own})
    head_files.check_numbers(folder, *found.values())
    with head_files.building(folder):
        rows = model.get_output_embeddings().weight.shape[0] if own is None else own.shape[1]
        head_files.check(folder, blocks.shape[2], rows, model)
        heads = MedusaHeads(count, blocks.shape[2], own)
        head_files.fill(folder, heads, found, "Medusa heads")
        return heads.to(model.device, model.dtype).eval()


def _stacked(folder: Path, weights: dict[str, Tensor], count: int, name: str) -> Tensor:
    """Put the weights called ``name`` of all heads into one tensor."""
    try:
        return torch.stack([weights[f"{k}.{name}"] for k in range(max(count, 1))])
    except KeyError as error:
        raise IntegrityError(
            f"draft head {folder} lacks the weight {error}: fetch or train it again"
        ) from None
    except RuntimeError as error:
        raise InputError(
            f"draft head {folder}: heads of several sizes ({name}): fetch or train it again"
        ) from error
