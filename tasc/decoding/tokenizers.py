"""Tokenizers of transformers: the ids of texts, the bytes of tokens, and TASC's own form."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.token_bytes import token_speller
from tasc.visible import is_unicode

Prompt = str | Sequence[int] | np.ndarray


def fast_tokenizer(tokenizer: PreTrainedTokenizerBase) -> LoadedTokenizer | None:
    """Return a fast tokenizer in TASC's form, or None for a tokenizer in plain Python."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None:
        return None
    config = json.dumps({"eos_token": str(tokenizer.eos_token)}).encode()
    copied = Tokenizer.from_str(inner.to_str())  # the caller's may pad or truncate
    copied.no_padding()
    copied.no_truncation()
    return LoadedTokenizer(copied, str(tokenizer.name_or_path), {"tokenizer_config.json": config})


def ids_of(
    text: Prompt, tokenizer: PreTrainedTokenizerBase | None, special: bool = False
) -> np.ndarray:
    """Return the ids (L,) int32 of a text, or the given ids. Raises InputError."""
    if not isinstance(text, str):
        ids = np.asarray(text)
        if ids.ndim != 1 or (ids.size and (ids.dtype.kind not in "iu" or ids.max() >= 2**31)):
            raise InputError(
                f"token ids must be one row of integers below 2^31, got {ids.dtype} {ids.shape}: "
                "pass texts or lists of ids"
            )
        return ids.astype(np.int32)
    if tokenizer is None:
        raise InputError("a corpus of texts needs the tokenizer: pass tokenizer=, or token ids")
    if not is_unicode(text):
        raise InputError(f"the text {text!r:.100} has half of a surrogate pair: remove it")
    encoded: Any = tokenizer(text, add_special_tokens=special)["input_ids"]
    return np.array(encoded, np.int32)


def speller_of(tokenizer: PreTrainedTokenizerBase) -> Callable[[int], bytes]:
    """Return a function from an id to the token's bytes in running text."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is not None:
        return token_speller(inner)
    base = tokenizer.tokenize("a")
    before = len(tokenizer.convert_tokens_to_string(base))

    @cache
    def bytes_of(token: int) -> bytes:
        text: str = tokenizer.convert_tokens_to_string(
            [*base, tokenizer.convert_ids_to_tokens(token)]
        )
        return text[before:].encode()

    return bytes_of
