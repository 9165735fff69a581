"""Converts the arguments of the library's functions for drafters and loop."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasc.decoding.core.resources import DraftSource
from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer

Prompt = str | Sequence[int] | np.ndarray


def draft_source(
    model: PreTrainedModel | None, tokenizer: PreTrainedTokenizerBase | None
) -> DraftSource | None:
    """Return the draft source. Raises InputError for a model without a fast tokenizer."""
    known = None if tokenizer is None else fast_tokenizer(tokenizer)
    if known is None and (model is not None or tokenizer is not None):
        raise InputError("a draft model needs its own fast tokenizer: pass draft_tokenizer=")
    return None if known is None else DraftSource(known, model)


def fast_tokenizer(tokenizer: PreTrainedTokenizerBase) -> LoadedTokenizer | None:
    """Return a fast tokenizer in TASC's form, or None for a tokenizer in plain Python."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None:
        return None
    config = json.dumps({"eos_token": str(tokenizer.eos_token)}).encode()
    own = Tokenizer.from_str(inner.to_str())  # the caller's may pad or truncate
    own.no_padding()
    own.no_truncation()
    return LoadedTokenizer(own, str(tokenizer.name_or_path), {"tokenizer_config.json": config})


def ids_of(
    text: Prompt, tokenizer: PreTrainedTokenizerBase | None, special: bool = False
) -> np.ndarray:
    """Return the ids (L,) int32 of a text, or the given ids."""
    if not isinstance(text, str):
        ids = np.asarray(text)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise InputError(
                f"token ids must be one row of integers, got {ids.dtype} {ids.shape}: "
                "pass texts or lists of ids"
            )
        return ids.astype(np.int32)
    if tokenizer is None:
        raise InputError("a corpus of texts needs the tokenizer: pass tokenizer=, or token ids")
    found: Any = tokenizer(text, add_special_tokens=special)["input_ids"]
    return np.array(found, np.int32)


def text_of(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    """Return the text of ``ids`` without special tokens."""
    text: str = tokenizer.decode(ids, skip_special_tokens=True)
    return text
