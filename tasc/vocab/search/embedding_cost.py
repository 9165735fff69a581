"""The cost of a new embedding row: parameters, and a share of each step."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tasc.errors import InputError
from tasc.files.tensors import StoredTensor, same_bits

_NOT_A_MODEL = (
    *(OSError, ValueError, RecursionError, ArithmeticError),
    *(LookupError, TypeError, AttributeError),
)
_HEADS = ("lm_head", "embed_out")


class _Tensor(NamedTuple):
    """A tensor of a checkpoint."""

    stored: StoredTensor
    shape: tuple[int, ...]


@dataclass(frozen=True)
class EmbeddingCost:
    """The cost of one more token in a model's vocabulary."""

    parameters: int  # of one row, or two if the output matrix is separate
    step_share: float  # share of a decoding step's multiplications
    total: int  # parameters of the model


def embedding_cost(folder: Path) -> EmbeddingCost | None:
    """Return the cost for the model in a tokenizer's folder; None without a readable model.

    A step multiplies by every weight except the input embedding, where it reads one row. The
    files are read without importing a model, which takes seconds: config.json, the headers of the
    weights, and both matrices if config.json calls them one.
    Raises InputError if a file of weights is damaged.
    """
    folder = folder.expanduser()
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = config.get("text_config", config)
        matrix = int(config["vocab_size"]), int(config["hidden_size"])
        tensors = _tensors(folder)
    except _NOT_A_MODEL:
        return None
    width, total = matrix[1], sum(math.prod(tensor.shape) for tensor in tensors)
    wide = [tensor for tensor in tensors if tensor.shape == matrix]
    if not wide or total == math.prod(matrix):  # a model has layers
        return None
    if not _has_own_head(wide, stated_tied=config.get("tie_word_embeddings")):
        return EmbeddingCost(width, width / total, total)
    return EmbeddingCost(2 * width, width / max(total - math.prod(matrix), 1), total)


def _has_own_head(wide: list[_Tensor], *, stated_tied: bool | None) -> bool:
    """Return whether the LM head, among tensors of the embedding's shape, is not the embedding.

    A copy of the embedding is a matrix of its own only if the configuration says so, as for
    transformers.
    """
    heads = [each for each in wide if each.stored.name.removesuffix(".weight").endswith(_HEADS)]
    others = [each for each in wide if each not in heads]
    if not heads or not others:
        return False
    if not stated_tied:
        return True
    return not same_bits(heads[0].stored, others[0].stored)


def _tensors(folder: Path) -> list[_Tensor]:
    from safetensors import SafetensorError, safe_open

    tensors: list[_Tensor] = []
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="numpy") as weights:
                for name in weights.keys():  # noqa: SIM118 - no mapping
                    shape = tuple(weights.get_slice(name).get_shape())
                    tensors.append(_Tensor(StoredTensor(file, name), shape))
        except SafetensorError as error:
            raise InputError(
                f"Cannot read weights from {file} ({error}): download the file again"
            ) from None
    return tensors
