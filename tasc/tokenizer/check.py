"""Checks of tokenizers of unknown origin.

Many defects show only during encoding: a regular expression that backtracks forever, a damaged
character table, an empty pattern. Therefore a few texts are encoded first.
"""

import json
import time
from collections import Counter

from tokenizers import Tokenizer

from tasc.data.foreign import as_input_error, is_panic
from tasc.errors import InputError

LARGEST_ID = 1 << 20  # tables have a row per id
_SECONDS = 0.25  # for a text of up to 256 repeats; normally a millisecond
_LENGTHS = [1 << doublings for doublings in range(9)]
_SAMPLES = ("a", " ", "1", "-", "\n", "é", "日", "😀", "a ", "▁a", "Ab1, ")
_ADVICE = "use the tokenizer.json that was published with the model"


def check_tokenizer(tokenizer: Tokenizer, path: str) -> None:
    """Raise InputError for an unusable tokenizer; ``path`` is its name in the error."""
    _check_ids(tokenizer, path)
    if getattr(tokenizer.model, "dropout", None):
        raise InputError(
            f"{path} has dropout {tokenizer.model.dropout:g}, so that the same text gets different "
            "tokens: set the model's dropout to null"
        )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with as_input_error(path, _ADVICE):
        for sample in _SAMPLES:
            _try(tokenizer, sample)


def check_added_tokens(tokenizer: Tokenizer, contents: str, path: str) -> None:
    """Raise InputError if an added token does not get its id in the tokenizer.json.

    The tokenizers library renumbers added tokens if ids are missing or already used.
    """
    for entry in json.loads(contents).get("added_tokens") or []:
        loaded_id = tokenizer.token_to_id(entry["content"])
        if loaded_id is not None and loaded_id != entry["id"]:
            raise InputError(
                f"{path}: the added token {entry['content'][:60]!r} has the id {entry['id']} in "
                f"the file, but {loaded_id} once loaded: fix added_tokens"
            )


def _check_ids(tokenizer: Tokenizer, path: str) -> None:
    if not tokenizer.get_vocab(with_added_tokens=False):
        raise InputError(f"{path}: the vocabulary is empty; {_ADVICE}")
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    text, largest = max(vocabulary.items(), key=lambda entry: entry[1])
    if largest >= LARGEST_ID:
        raise InputError(
            f"{path}: token {text[:60]!r} has the id {largest}, but ids end at {LARGEST_ID - 1}; "
            f"{_ADVICE}"
        )
    if len(set(vocabulary.values())) < len(vocabulary):
        shared, times = Counter(vocabulary.values()).most_common(1)[0]
        raise InputError(f"{path}: {times} tokens have the id {shared}; {_ADVICE}")


def _try(tokenizer: Tokenizer, sample: str) -> None:
    """Encode and decode the sample, repeated up to 256 times; TimeoutError if it is slow."""
    for length in _LENGTHS:
        begin = time.thread_time()  # a single text is encoded in this thread
        try:
            text = sample * length + "!"  # ends a run of matches
            ids = tokenizer.encode(text, add_special_tokens=True).ids
            tokenizer.decode(ids, skip_special_tokens=False)
        except BaseException as error:
            if is_panic(error) or not isinstance(error, Exception):
                raise
            return  # a tokenizer without emoji is fine for data without emoji
        seconds = time.thread_time() - begin
        if seconds > _SECONDS:
            raise TimeoutError(f"encoding {len(sample) * length} characters took {seconds:.1f} s")
