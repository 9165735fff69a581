"""New rows of the embedding and the LM head, section 4.2 of "Task-Centric Acceleration"."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from transformers import PreTrainedModel

from tasc.errors import InputError
from tasc.models.folder.tying import is_tied


class NewEmbedding(Protocol):
    """A token to add: its id, and the base tokens of its string, in order and with repetitions."""

    @property
    def new_id(self) -> int: ...

    @property
    def base_ids(self) -> Sequence[int]: ...


@torch.no_grad()
def extend_embeddings(model: PreTrainedModel, rows: Sequence[NewEmbedding], size: int = 0) -> None:
    """Set the rows of each new token, in embeddings and LM head, to the mean of its base tokens'.

    The matrices grow to ``size`` rows, the tokenizer's length, or to the highest new id. A padded
    vocabulary never shrinks; its spare rows are used first. Departs from the paper: the mean is
    over *base* tokens, as the constituents of a nested n-gram may be new themselves. Raises
    InputError if a base id is not a base token, or two new tokens have the same id.
    """
    old = model.get_input_embeddings().weight.shape[0]
    _check(rows, old)
    needed = max([old, size, *(row.new_id + 1 for row in rows)])
    table = per_layer_table(model)
    if needed > (old if table is None else min(old, table.num_embeddings)):
        model.resize_token_embeddings(needed, mean_resizing=False)  # the table too
    for matrix in _matrices(model):  # (V, d), or a bias (V,)
        for row in rows:
            base = torch.tensor(list(row.base_ids), device=matrix.device)
            matrix[row.new_id] = matrix[base].float().mean(0).to(matrix.dtype)


@torch.no_grad()
def keep_rows(model: PreTrainedModel, token_ids: Sequence[int]) -> None:
    """Reduce embeddings and LM head to the rows of these tokens, in this order.

    Special tokens of the configuration are renumbered, and those not kept are unset. Raises
    InputError if the model has no such row.
    """
    size = model.get_input_embeddings().weight.shape[0]
    if token_ids[-1] >= size:
        raise InputError(
            f"the model has {size:,} embedding rows, and the trimmed tokenizer keeps token "
            f"{token_ids[-1]}: give --augmented a folder that was made from this model's tokenizer"
        )
    rows = torch.tensor(list(token_ids), device=model.device)
    # A table of all layers may be shorter; its rows beyond are never read.
    old_rows = [matrix[rows.where(rows < len(matrix), 0)] for matrix in _matrices(model)]
    model.resize_token_embeddings(len(token_ids), mean_resizing=False)
    for matrix, values in zip(_matrices(model), old_rows, strict=True):
        matrix.copy_(values)
    _renumber_special(model, {old: position for position, old in enumerate(token_ids)})


def _renumber_special(model: PreTrainedModel, new: Mapping[int, int]) -> None:
    """Renumber the special tokens of the configuration; unset those that are not in ``new``."""
    configs = (model.config, model.config.get_text_config(), model.generation_config)
    for config in {id(config): config for config in configs}.values():  # a text model has one
        for name, value in list(vars(config or object).items()):
            if name.endswith("token_id") and isinstance(value, int):
                setattr(config, name, new.get(value))
            elif name.endswith(("token_id", "tokens")) and isinstance(value, list):
                setattr(config, name, [new[i] for i in value if i in new])
            elif name == "bad_words_ids" and value:  # no output contains a dropped token
                words = [[new[i] for i in word] for word in value if new.keys() >= {*word}]
                setattr(config, name, words or None)
            elif name == "sequence_bias" and isinstance(value, list):
                biases = [[[new[i] for i in w], bias] for w, bias in value if new.keys() >= {*w}]
                setattr(config, name, biases or None)
    embedding = model.get_input_embeddings()
    if getattr(embedding, "padding_idx", None) is not None:
        embedding.padding_idx = model.config.get_text_config().pad_token_id


def output_head(model: PreTrainedModel) -> torch.nn.Module:
    """Return the LM head. Raises InputError if the model has none."""
    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Module):
        raise InputError(
            f"{type(model).__name__} has no LM head for new tokens: use a causal language model"
        )
    return head


def per_layer_table(model: PreTrainedModel) -> torch.nn.Embedding | None:
    """Return the second embedding, which every layer reads, if the model has one (Gemma 3n, 4)."""
    table = getattr(model, "get_per_layer_input_embeddings", lambda: None)()
    return table if isinstance(table, torch.nn.Embedding) else None


def _check(rows: Sequence[NewEmbedding], base_size: int) -> None:
    new = {row.new_id for row in rows}
    if len(new) != len(rows):
        raise InputError("two new tokens have the same id: create them with tasc augment")
    for row in rows:
        wrong = [i for i in row.base_ids if i in new or not 0 <= i < base_size]
        if wrong or not row.base_ids:
            raise InputError(
                f"new token {row.new_id} consists of tokens {list(row.base_ids)}, not all among "
                f"the model's {base_size}: create it for this tokenizer with tasc augment"
            )


def _matrices(model: PreTrainedModel) -> list[torch.Tensor]:
    head, table = output_head(model), per_layer_table(model)
    tensors = [model.get_input_embeddings().weight, None if is_tied(model) else head.weight]
    tensors += [None if table is None else table.weight, getattr(head, "bias", None)]
    return [tensor for tensor in tensors if tensor is not None]
