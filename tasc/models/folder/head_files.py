"""The folder of a draft head: config.json and model.safetensors."""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel

from tasc.data.foreign import one_line
from tasc.errors import InputError, IntegrityError
from tasc.models.folder.files import CONFIG, WEIGHTS, check_inside, read_json
from tasc.models.folder.vocabulary import stated


def find(path: Path) -> Path:
    """Return the head's folder: ``path``, or the head in the output of ``tasc finetune``."""
    return path / "head" if (path / "head" / CONFIG).is_file() else path


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return config.json and the tensors.

    Raises:
        InputError: there are no tensors in safetensors, or no config.json.
        IntegrityError: the tensors are damaged.
    """
    file, what = folder / WEIGHTS, f"draft head {folder}"
    if not file.is_file():
        if pickles := sorted([*folder.glob("*.bin"), *folder.glob("*.pt")]):
            raise InputError(
                f"{what} holds {pickles[0].name}, a pickle, which can run code and is not loaded: "
                "convert it on a machine you trust with safetensors.torch.save_file(torch.load("
                f"'{pickles[0].name}', weights_only=True), '{WEIGHTS}')"
            )
        raise InputError(f"{what} has no {WEIGHTS}: make one with tasc finetune --draft-head")
    if not (folder / CONFIG).exists():
        raise InputError(f"{what} has no {CONFIG}: make one with tasc finetune --draft-head")
    values = read_json(folder / CONFIG, what)
    check_inside(file, what)
    try:
        return values, load_file(file)
    except (ValueError, SafetensorError) as error:
        raise IntegrityError(
            f"{what} is damaged: {one_line(error)}: fetch or train it again"
        ) from error


def check(folder: Path, hidden_size: int, tokens: int, model: PreTrainedModel) -> None:
    """Raise InputError unless a head of these sizes fits ``model``."""
    rows, d = model.get_input_embeddings().weight.shape
    width = model.get_output_embeddings().weight.shape[1]
    _check_states(folder, hidden_size, d)
    _check_tokens(folder, tokens, rows)
    if d != width:
        raise InputError(
            f"the model has embeddings of size {d} and an LM head of size {width}, but draft head "
            f"{folder} needs one size for both: use a method without a head, such as tasc-spec"
        )


def check_folder(folder: Path, model: Path) -> None:
    """Raise InputError unless the config.json of a head fits that of the model folder ``model``."""
    try:
        head = read_json(folder / CONFIG, f"draft head {folder}")
    except InputError:
        return
    for size, check_size in (("hidden_size", _check_states), ("vocab_size", _check_tokens)):
        own, wanted = head.get(size), stated(model, size)
        if type(own) is int and wanted is not None:
            check_size(folder, own, wanted)


def _check_states(folder: Path, hidden_size: int, width: int) -> None:
    if hidden_size != width:
        raise InputError(
            f"draft head {folder} has hidden size {hidden_size}, the model {width}: it belongs to "
            "another model; train one for this model with tasc finetune --draft-head"
        )


def _check_tokens(folder: Path, tokens: int, rows: int) -> None:
    if tokens > rows:
        raise InputError(
            f"draft head {folder} was made for {tokens} tokens, the model has {rows}: "
            "train one for this model with tasc finetune --draft-head"
        )
