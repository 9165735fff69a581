"""The heads of Medusa: each reads the target's hidden state and says what comes a token later.

Cai et al., "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads"
(2024), section 2.1.1: head k makes of the last hidden state at position i the law of token
i + 1 + k, by a residual block and an LM head. Departs: the LM head is the target's own, frozen, and
not one more a head, whose rows would outweigh a small model with a large vocabulary; a pruned LM
head serves all heads alike.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from transformers import PreTrainedModel

from tasc.errors import InputError, IntegrityError
from tasc.models import head_files

MEDUSA = "MedusaHeads"  # the architecture that config.json states


class MedusaHeads(nn.Module):
    """``count`` residual blocks, x + SiLU(W x + b); untrained ones change nothing."""

    def __init__(self, count: int, hidden_size: int, vocabulary: int) -> None:
        """Make untrained heads for states of ``hidden_size`` numbers."""
        super().__init__()
        self.vocabulary = vocabulary
        self.weight = nn.Parameter(torch.zeros(count, hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.zeros(count, hidden_size))

    @property
    def count(self) -> int:
        """How many heads there are."""
        return self.weight.shape[0]

    def forward(self, hidden: Tensor) -> Tensor:
        """Return each head's states (heads, n, d), for the LM head, of ``hidden`` (n, d)."""
        spread = hidden.expand(self.count, -1, -1)
        return hidden + silu(torch.baddbmm(self.bias[:, None], spread, self.weight.transpose(1, 2)))

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors."""
        config = {
            "architectures": [MEDUSA],
            "heads": self.count,
            "hidden_size": self.weight.shape[1],
            "vocab_size": self.vocabulary,
        }
        head_files.write(folder, config, self)


def new_medusa(model: PreTrainedModel, count: int) -> MedusaHeads:
    """Return ``count`` untrained heads for ``model``, on its device and in its dtype."""
    vocabulary, d = model.get_output_embeddings().weight.shape
    return MedusaHeads(count, d, vocabulary).to(model.device, model.dtype).eval()


def load_medusa(path: Path, model: PreTrainedModel) -> MedusaHeads:
    """Load the heads in ``path`` for ``model``.

    Raises InputError where there are none in safetensors, or they are of another kind or target.
    """
    folder = head_files.find(path)
    config, weights = head_files.read(folder)
    if config.get("architectures") != [MEDUSA]:
        raise InputError(
            f"draft head {folder} holds no Medusa heads: train them with "
            "tasc finetune --draft-head --head medusa, or decode with the method eagle"
        )
    try:
        count, d, vocabulary = (int(config[key]) for key in ("heads", "hidden_size", "vocab_size"))
    except (KeyError, TypeError, ValueError) as error:
        raise IntegrityError(f"draft head {folder}: {head_files.CONFIG} lacks {error}") from error
    head_files.check(folder, d, vocabulary, model)
    heads = MedusaHeads(count, d, vocabulary)
    head_files.fill(folder, heads, weights, "Medusa heads")
    return heads.to(model.device, model.dtype).eval()
