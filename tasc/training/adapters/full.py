"""Full fine-tuning: every weight trains, and what is left is a plain model."""

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
    others = [p for p in every if id(p) not in matrices]
    pairs = (others, rate), ([p for p in every if id(p) in matrices], embedding_rate)
    return [{"params": ps, "lr": lr, "weight_decay": 0.0} for ps, lr in pairs]
