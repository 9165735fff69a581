"""The cost of a new embedding row: parameters, and a share of each step."""

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
    """The cost of one more token in a model's vocabulary."""

    parameters: int  # of one row, or two if the output matrix is separate
    step_share: float  # share of a decoding step's multiplications
    total: int  # parameters of the model


def embedding_cost(folder: Path) -> EmbeddingCost | None:
    """Return the cost for the model in a tokenizer's folder; None without a readable model.

    A step multiplies by every weight except the input embedding, where it reads one row. Only
    config.json and the headers of the weights are read, because importing a model takes seconds.
    Raises InputError if a file of weights is damaged.
    """
    folder = folder.expanduser()
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = config.get("text_config", config)
        matrix = int(config["vocab_size"]), int(config["hidden_size"])
        shapes = _shapes(folder)
    except _NOT_A_MODEL:
        return None
    width, total = matrix[1], sum(map(math.prod, shapes.values()))
    if matrix not in shapes.values() or total == math.prod(matrix):  # a model has layers
        return None
    own_head = any(name.startswith(("lm_head.", "embed_out.")) for name in shapes)
    if config.get("tie_word_embeddings", not own_head):
        return EmbeddingCost(width, width / total, total)
    return EmbeddingCost(2 * width, width / max(total - math.prod(matrix), 1), total)


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="numpy") as weights:
                names = weights.keys()
                shapes |= {name: tuple(weights.get_slice(name).get_shape()) for name in names}
        except SafetensorError as error:
            raise InputError(
                f"Cannot read weights from {file} ({error}): download the file again"
            ) from None
    return shapes
