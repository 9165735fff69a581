"""Full fine-tuning of all weights."""

from transformers import PreTrainedModel


def prepare(model: PreTrainedModel) -> PreTrainedModel:
    """Make all weights of a model trainable, in place.

    In float32, because bfloat16 cannot represent an AdamW step.
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
