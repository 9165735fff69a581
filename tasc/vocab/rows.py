"""What a new row of a model's embeddings costs: parameters, and a share of every step."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RowCost:
    """One token more in the vocabulary of a model."""

    parameters: int  # one row, or two where the output has a matrix of its own
    step_share: float  # of a decoding step's multiplications


def row_cost(folder: Path) -> RowCost | None:
    """Look at the architecture beside a tokenizer; None where no known one stands there.

    A step multiplies by every weight but the input embedding, of which it looks up a row.
    """
    folder = folder.expanduser()
    if not (folder / "config.json").is_file():
        return None
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        with torch.device("meta"):  # shapes alone
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    except (ValueError, KeyError, OSError):
        return None
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    if head is None:
        return None
    tied = head.weight is embedding
    multiplied = model.num_parameters() - (0 if tied else embedding.numel())
    width = int(head.weight.shape[1])
    return RowCost(width if tied else width + embedding.shape[1], width / multiplied)
