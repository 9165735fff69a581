"""What a new row of a model's embeddings costs: parameters, and a share of every step."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from tasc.errors import InputError

_NOT_A_MODEL = (
    *(OSError, ValueError, RecursionError, ArithmeticError),
    *(LookupError, TypeError, AttributeError),
)


@dataclass(frozen=True)
class EmbeddingCost:
    """One token more in the vocabulary of a model."""

    parameters: int  # one row, or two where the output has a matrix of its own
    step_share: float  # of a decoding step's multiplications


def embedding_cost(folder: Path) -> EmbeddingCost | None:
    """Look at the model beside a tokenizer; None where none stands there, or none that can be read.

    A step multiplies by every weight but the input embedding, of which it looks up a row. Reads
    config.json and the headers of the weights, as loading the model's code takes seconds.
    """
    from safetensors import SafetensorError, safe_open

    folder = folder.expanduser()
    files = sorted(folder.glob("*.safetensors"))
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = config.get("text_config", config)
        matrix = int(config["vocab_size"]), int(config["hidden_size"])
    except _NOT_A_MODEL:
        return None
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(file, framework="numpy") as weights:
                names = weights.keys()
                shapes |= {name: tuple(weights.get_slice(name).get_shape()) for name in names}
        except SafetensorError as error:
            raise InputError(f"{file} holds no weights ({error}): get the file again") from None
        except (OSError, ValueError):
            return None
    width, total = matrix[1], sum(map(math.prod, shapes.values()))
    if matrix not in shapes.values() or total == math.prod(matrix):  # no layers are no model
        return None
    own_head = any(name.startswith(("lm_head.", "embed_out.")) for name in shapes)
    if config.get("tie_word_embeddings", not own_head):
        return EmbeddingCost(width, width / total)
    return EmbeddingCost(2 * width, width / (max(total - math.prod(matrix), 1)))
