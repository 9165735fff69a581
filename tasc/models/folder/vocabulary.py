"""Whether a model has a row of its embedding for each token of a tokenizer."""

from collections.abc import Collection
from pathlib import Path

from tasc.errors import InputError
from tasc.models.folder.files import CONFIG, read_json
from tasc.tokenizer.loaded import LoadedTokenizer


def check_tokens(tokenizer: LoadedTokenizer, rows: int, new: Collection[int] = ()) -> None:
    """Refuse a tokenizer with ids beyond a model's ``rows`` but the ``new`` ones.

    A model may have more rows, which pad its vocabulary. A special token may have none: published
    tokenizers are shared with larger models, whose images it stands for. Raises InputError.
    """
    strings = tokenizer.vocabulary()
    size = len(strings)
    unknown = [i for i in range(rows, size) if strings[i] and i not in new]
    if unknown:
        told = f", and token {unknown[0]} is not among the {len(new)} new ones" if new else ""
        raise InputError(
            f"tokenizer {tokenizer.path} has {size} tokens and the model {rows} rows{told}: give "
            "the model's own tokenizer, and new tokens with tasc finetune --augmented"
        )
    beyond = [i for i in new if i >= size]
    if beyond:
        raise InputError(
            f"tokenizer {tokenizer.path} has {size} tokens and no id {beyond[0]}: "
            "make the new tokens for this one with tasc augment"
        )


def check_folder(tokenizer: LoadedTokenizer, folder: Path) -> None:
    """Do the same for a model that is not loaded, by its config.json."""
    rows = stated(folder, "vocab_size")
    if rows is not None:
        check_tokens(tokenizer, rows)


def stated(folder: Path, size: str) -> int | None:
    """Return a size of the language model that config.json in ``folder`` states, if it does."""
    config = read_json(folder / CONFIG, f"model {folder}")
    text = config.get("text_config")
    value = (text if isinstance(text, dict) else config).get(size)
    return value if type(value) is int else None
