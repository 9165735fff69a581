"""How often each token occurs: in a task's outputs, or in a file of counts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from tasc.errors import InputError, IntegrityError


def corpus_counts(outputs: Sequence[np.ndarray], end: int, vocabulary: int) -> np.ndarray:
    """Count the tokens of ``outputs``, each (T_i,) int32 and followed by ``end``: (V,) int64."""
    counts = np.zeros(vocabulary, np.int64)
    for output in outputs:
        counts += np.bincount(output, minlength=vocabulary)[:vocabulary]
    counts[end] += max(1, len(outputs))
    return counts


def read_counts(path: Path, vocabulary: int) -> np.ndarray:
    """Read the tensor ``counts`` (V',) int64 of a safetensors file, V' <= V: (V,) int64.

    An embedding may have more rows than the tokenizer has tokens; what the file lacks counts 0.
    """
    if not path.is_file():
        raise InputError(f"token counts {path}: no such file")
    try:
        with safe_open(path, "np") as file:
            if "counts" not in file.keys():  # noqa: SIM118 - it is no dict
                raise InputError(f"token counts {path}: no tensor named counts, only {file.keys()}")
            counts = file.get_tensor("counts")
    except SafetensorError as error:
        raise IntegrityError(f"token counts {path} cannot be read: {error}") from error
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or len(counts) > vocabulary:
        raise InputError(
            f"token counts {path}: {counts.dtype} {counts.shape}, where one integer for each of at "
            f"most {vocabulary} tokens is needed: count with the model's own tokenizer"
        )
    return np.pad(counts.astype(np.int64), (0, vocabulary - len(counts)))
