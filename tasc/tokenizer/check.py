"""What a tokenizer that strangers made must be, whatever file it came from.

Most of what is wrong with one shows only when it encodes: a regular expression that backtracks
without end, a damaged table of characters, an empty pattern. So a few texts are encoded first.
"""

import json
import time
from collections import Counter

from tokenizers import Tokenizer

from tasc.data.foreign import as_input_error, is_panic
from tasc.errors import InputError

LARGEST_ID = 1 << 20  # the largest vocabularies have a million tokens; tables a row for each id
_SECONDS = 0.25  # for one text of up to _LONGEST characters: a good tokenizer takes a millisecond
_LONGEST = 256
_SAMPLES = ("a", " ", "1", "-", "\n", "é", "日", "😀", "a ", "▁a", "Ab1, ")
_ADVICE = "give the tokenizer.json as its model's makers published it"


def check_tokenizer(tokenizer: Tokenizer, path: str) -> None:
    """Raise InputError, naming ``path``, for a tokenizer that cannot be worked with."""
    _check_ids(tokenizer, path)
    if getattr(tokenizer.model, "dropout", None):
        raise InputError(
            f"{path}: with dropout {tokenizer.model.dropout:g} the same text becomes other tokens "
            "every time: set the model's dropout to null"
        )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with as_input_error(path, _ADVICE):
        for sample in _SAMPLES:
            _try(tokenizer, sample)


def check_added_tokens(tokenizer: Tokenizer, contents: str, path: str) -> None:
    """Raise InputError where an added token has another id than its tokenizer.json says.

    The tokenizers library numbers added tokens anew where there are holes or an id is taken.
    """
    for entry in json.loads(contents).get("added_tokens") or []:
        found = tokenizer.token_to_id(entry["content"])
        if found is not None and found != entry["id"]:
            raise InputError(
                f"{path}: the added token {entry['content'][:60]!r} has the id {entry['id']} in "
                f"the file, and {found} once it is loaded: mend added_tokens"
            )


def _check_ids(tokenizer: Tokenizer, path: str) -> None:
    if not tokenizer.get_vocab(with_added_tokens=False):
        raise InputError(f"{path}: the vocabulary is empty; {_ADVICE}")
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    text, largest = max(vocabulary.items(), key=lambda entry: entry[1])
    if largest >= LARGEST_ID:
        raise InputError(
            f"{path}: token {text[:60]!r} has the id {largest}, ids must be below {LARGEST_ID}; "
            f"{_ADVICE}"
        )
    if len(set(vocabulary.values())) < len(vocabulary):
        shared, times = Counter(vocabulary.values()).most_common(1)[0]
        raise InputError(f"{path}: {times} tokens have the id {shared}; {_ADVICE}")


def _try(tokenizer: Tokenizer, sample: str) -> None:
    """Encode and decode the sample, repeated ever more often, unless that takes too long.

    Errors that are no panics pass: a tokenizer may know no emoji, as long as the data has none.
    """
    length = 1
    while length <= _LONGEST:
        begin = time.thread_time()  # one text is encoded in this thread
        try:
            text = sample * length + "!"  # so that what matches the sample must stop
            ids = tokenizer.encode(text, add_special_tokens=True).ids
            tokenizer.decode(ids, skip_special_tokens=False)
        except BaseException as error:
            if is_panic(error) or not isinstance(error, Exception):
                raise
            return
        seconds = time.thread_time() - begin
        if seconds > _SECONDS:
            raise InputError(
                f"it takes {seconds:.1f} s to encode {len(sample) * length} characters: {_ADVICE}"
            )
        length *= 2
