"""The folder of a trained head: config.json and model.safetensors."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from tasc.data.foreign import one_line
from tasc.errors import InputError, IntegrityError, TascError
from tasc.files.disk import writing
from tasc.models.folder.files import CONFIG, WEIGHTS, check_inside, read_json
from tasc.models.folder.quiet import quiet
from tasc.models.folder.vocabulary import stated


def write(folder: Path, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write ``config`` and ``weights``."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(config, indent=2, sort_keys=True)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    held = {n: t.detach().cpu().contiguous() for n, t in weights.items()}
    with writing(folder / WEIGHTS, sum(t.nbytes for t in held.values())):
        save_file(held, folder / WEIGHTS, metadata={"format": "pt"})


def find(path: Path) -> Path:
    """Return the folder of the head in ``path``, which may be that of the step that trained it."""
    return path / "head" if (path / "head" / CONFIG).is_file() else path


def config(path: Path) -> dict[str, Any]:
    """Return what config.json says of the head in ``path``; nothing where it cannot be read."""
    try:
        return read_json(find(path) / CONFIG, f"draft head {path}")
    except InputError:
        return {}


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return config.json and the tensors.

    Raises InputError where there are none in safetensors, IntegrityError where they are damaged.
    """
    file = folder / WEIGHTS
    if not file.is_file():
        if found := sorted([*folder.glob("*.bin"), *folder.glob("*.pt")]):
            raise InputError(
                f"draft head {folder} holds {found[0].name}, a pickle, which can run code and is "
                "not read: convert it on a machine you trust with safetensors.torch.save_file("
                f"torch.load('{found[0].name}', weights_only=True), '{WEIGHTS}')"
            )
        raise InputError(
            f"draft head {folder}: no {WEIGHTS} there; make one with tasc finetune --draft-head"
        )
    what = f"draft head {folder}"
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
    """Refuse a head whose states or tokens are not those of ``model``. Raises InputError."""
    rows, d = model.get_input_embeddings().weight.shape
    width = model.get_output_embeddings().weight.shape[1]
    _check_states(folder, hidden_size, d)
    _check_tokens(folder, tokens, rows)
    if d != width:
        raise InputError(
            f"the model has embeddings of {d} numbers and an LM head of {width}, and draft head "
            f"{folder} one size for both: decode with a method that needs no head, as tasc-spec"
        )


def check_folder(folder: Path, model: Path) -> None:
    """Do the same by what the config.json of a head and of a model that is not loaded state."""
    head = config(folder)
    for size, check_size in (("hidden_size", _check_states), ("vocab_size", _check_tokens)):
        found, wanted = head.get(size), stated(model, size)
        if type(found) is int and wanted is not None:
            check_size(folder, found, wanted)


def _check_states(folder: Path, hidden_size: int, width: int) -> None:
    if hidden_size != width:
        raise InputError(
            f"draft head {folder} has states of {hidden_size} numbers, the model of {width}: it "
            "belongs to another model; train one for this model with tasc finetune --draft-head"
        )


def _check_tokens(folder: Path, tokens: int, rows: int) -> None:
    if tokens > rows:
        raise InputError(
            f"draft head {folder} was made for {tokens} tokens, the model has {rows}: "
            "train one for this model with tasc finetune --draft-head"
        )


def fill(folder: Path, head: nn.Module, weights: Mapping[str, Tensor], kind: str) -> None:
    """Load ``weights`` into ``head``. Raises InputError where they are not those of ``kind``."""
    try:
        head.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(
            f"draft head {folder}: not the weights of {kind}: {one_line(error)}: fetch or train "
            "it again"
        ) from error


@contextmanager
def building(folder: Path) -> Iterator[None]:
    """Turn what torch and transformers raise on a stranger's head into one line.

    Only what builds, fills and tries the head stands in the block.
    """
    try:
        with quiet():
            yield
    except TascError:
        raise
    except Exception as error:
        raise InputError(
            f"draft head {folder} cannot be built: {type(error).__name__}: {one_line(error)}: "
            "fetch or train it again"
        ) from error


def check_numbers(folder: Path, *drafted: Tensor) -> None:
    """Refuse a head that says what is not a number. Raises IntegrityError."""
    if any(tensor.isnan().any() for tensor in drafted):
        raise IntegrityError(
            f"draft head {folder}: what it drafts is not a number, its weights are damaged: fetch "
            "or train it again"
        )
