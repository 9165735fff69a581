"""Check that a model has an embedding row for each token of a tokenizer."""

from collections.abc import Collection
from pathlib import Path

from tasc.errors import InputError
from tasc.models.folder.files import CONFIG, read_json
from tasc.tokenizer.loaded import LoadedTokenizer


def check_tokens(tokenizer: LoadedTokenizer, rows: int, new: Collection[int] = ()) -> None:
    """Raise InputError for a tokenizer with ids, other than ``new`` ones, beyond ``rows``.

    A model may have more rows, as padding. A special token may have no row, because published
    tokenizers are shared with larger models.
    """
    strings = tokenizer.vocabulary()
    size = len(strings)
    if unknown := [i for i in range(rows, size) if strings[i] and i not in new]:
        extra = f", and token {unknown[0]} is not among the {len(new)} new ones" if new else ""
        raise InputError(
            f"tokenizer {tokenizer.path} has {size} tokens, but the model has {rows} embedding "
            f"rows{extra}: use the model's own tokenizer, and add new tokens with tasc finetune "
            "--augmented"
        )
    if beyond := [i for i in new if i >= size]:
        raise InputError(
            f"tokenizer {tokenizer.path} has {size} tokens and no id {beyond[0]}: create the new "
            "tokens for this tokenizer with tasc augment"
        )


def stated(folder: Path, size: str) -> int | None:
    """Return a size of the language model from config.json in ``folder``, if it is there."""
    config = read_json(folder / CONFIG, f"model {folder}")
    text = config.get("text_config")
    value = (text if isinstance(text, dict) else config).get(size)
    return value if type(value) is int else None
