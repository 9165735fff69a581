"""Counts of each token in a task's texts, as a file that names its tokenizer."""

from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from tasc.backend.base import Int64
from tasc.errors import InputError, IntegrityError
from tasc.tokenizer.loaded import LoadedTokenizer

FILE = "token_counts.safetensors"


def save_counts(folder: Path, tokenizer: LoadedTokenizer, inputs: Int64, outputs: Int64) -> None:
    """Write the counts (V,) of inputs and outputs, and the identity of the tokenizer."""
    identity = {"tokenizer": tokenizer.identity.hex()}
    save_file({"input": inputs, "output": outputs}, folder / FILE, metadata=identity)


def load_counts(path: Path | str, tokenizer: LoadedTokenizer) -> Int64:
    """Return the counts (V,) of the outputs by token id.

    ``path`` is the file, or the folder that ``tasc analyze`` wrote. Raises InputError if the file
    does not exist or belongs to another tokenizer, and IntegrityError if it is damaged.
    """
    file = Path(path, FILE) if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise InputError(f"{file} does not exist: write it with tasc analyze --tokenizer")
    try:
        with safe_open(file, framework="numpy") as tensors:
            owner = (tensors.metadata() or {}).get("tokenizer")
            if owner != tokenizer.identity.hex():
                raise InputError(
                    f"{file} does not belong to the tokenizer {tokenizer.path}: run tasc analyze "
                    "--tokenizer with this one"
                )
            counts: Int64 = tensors.get_tensor("output")
        size = len(tokenizer.vocabulary())
        if counts.dtype != np.int64 or counts.shape != (size,) or counts.min(initial=0) < 0:
            raise ValueError(f"counts of {counts.dtype} {counts.shape}, wanted int64 ({size},)")
    except (SafetensorError, ValueError, OSError) as error:
        raise IntegrityError(f"{file} is damaged ({error}): run tasc analyze again") from None
    return counts
