"""The folder of a draft head: config.json and model.safetensors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from tasc.data.foreign import one_line
from tasc.errors import InputError, IntegrityError
from tasc.models.folder.files import CONFIG, WEIGHTS, check_inside, read_json


def find(path: Path | str) -> Path:
    """Return the head's folder: ``path``, or the head in the output of ``tasc finetune``."""
    head = Path(path, "head")
    return head if (head / CONFIG).is_file() else head.parent


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return config.json and the tensors.

    Raises InputError if one of the files is missing, and IntegrityError for damaged tensors.
    """
    file, what = folder / WEIGHTS, f"draft head {folder}"
    pickles = sorted([*folder.glob("*.bin"), *folder.glob("*.pt")])
    if pickles and not file.is_file():
        raise InputError(
            f"{what} holds {pickles[0].name}, a pickle, which can run code and is not loaded: "
            "convert it on a machine you trust with safetensors.torch.save_file(torch.load("
            f"'{pickles[0].name}', weights_only=True), '{WEIGHTS}')"
        )
    for name in (WEIGHTS, CONFIG):
        if not (folder / name).is_file():
            raise InputError(f"{what} has no {name}: make one with tasc finetune --draft-head")
    values = read_json(folder / CONFIG, what)
    check_inside(file, what)
    try:
        return values, load_file(file)
    except (ValueError, SafetensorError) as error:
        raise IntegrityError(
            f"{what} is damaged: {one_line(error)}: fetch or train it again"
        ) from error


def check(folder: Path, values: Mapping[str, Any], hidden_size: int, rows: int) -> None:
    """Raise InputError unless a head of config.json ``values`` fits a model.

    The model has hidden states of ``hidden_size`` and ``rows`` embedding rows.
    """
    size = values.get("hidden_size")
    tokens = values.get("vocab_size")
    if type(size) is int and size != hidden_size:
        raise InputError(
            f"draft head {folder} has hidden size {size}, the model {hidden_size}: it belongs to "
            "another model; train one for this model with tasc finetune --draft-head"
        )
    if type(tokens) is int and tokens > rows:
        raise InputError(
            f"draft head {folder} was made for {tokens} tokens, the model has {rows}: "
            "train one for this model with tasc finetune --draft-head"
        )
