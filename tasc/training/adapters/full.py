"""Full fine-tuning: every weight trains, and what is left is a plain model."""

import torch
from transformers import PreTrainedModel


def prepare(model: PreTrainedModel) -> PreTrainedModel:
    """Let all weights of a model train, in float32: an AdamW step is below what bfloat16 resolves.

    The model itself is changed and returned.
    """
    return model.float().requires_grad_(True)


def parameter_groups(
    model: PreTrainedModel, rate: float, embedding_rate: float
) -> list[dict[str, object]]:
    """Return AdamW groups without decay: embedding and LM head at ``embedding_rate``."""
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    matrices = {id(p) for module in ends if module is not None for p in module.parameters()}
    every = list(model.parameters())
    return [
        {"params": [p for p in every if id(p) not in matrices], "lr": rate, "weight_decay": 0.0},
        {
            "params": [p for p in every if id(p) in matrices],
            "lr": embedding_rate,
            "weight_decay": 0.0,
        },
    ]


@torch.no_grad()
def copy_into(model: PreTrainedModel, plain: PreTrainedModel) -> None:
    """Write the weights of a trained model into ``plain``, the same model in a dtype of its own."""
    plain.load_state_dict(model.state_dict())
