"""Encoding a growing text with another tokenizer.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies", section 3.2. Positions refer to the text before normalization, so
tokenizers that drop spaces or letter case work, too.
"""

from bisect import bisect_right
from codecs import getincrementaldecoder
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from operator import itemgetter

from tasc.tokenizer.loaded import LoadedTokenizer

LOOK_BEHIND = 10  # tokens that are encoded again with new text


def split_incomplete(string: bytes) -> tuple[bytes, bytes]:
    """Split off an incomplete UTF-8 character at the end of ``string``."""
    decoder = getincrementaldecoder("utf-8")("replace")
    decoder.decode(string)
    rest, _ = decoder.getstate()
    return string[: len(string) - len(rest)], rest


def lossy(string: bytes) -> tuple[str, list[int]]:
    """Decode UTF-8, with U+FFFD for invalid bytes.

    Also returns the number of bytes before each character, and that of all bytes.
    """
    text, widths = "", [0]
    while string:
        try:
            good, bad = string.decode(), 0
        except UnicodeDecodeError as error:
            good, bad = string[: error.start].decode(), error.end - error.start
            string = string[error.end :]
        else:
            string = b""
        text += good + ("�" if bad else "")
        widths += [len(letter.encode()) for letter in good] + ([bad] if bad else [])
    return text, list(accumulate(widths))


class Bytes:
    """One token per byte, and an end token 256."""

    end = 256

    def __init__(self) -> None:
        self.strings = [bytes([i]) for i in range(256)] + [b""]
        self.opening: list[int] = []
        self.byte_ids = {i: i for i in range(256)}

    def encode(self, string: bytes) -> tuple[list[int], list[int]]:
        return list(string), list(range(1, len(string) + 1))

    def string_of(self, ids: list[int], first: bool = False) -> bytes:  # noqa: ARG002
        return bytes(i for i in ids if i < self.end)


class Encoder:
    """A tokenizer that encodes bytes from the middle of a text."""

    def __init__(self, tokenizer: LoadedTokenizer) -> None:
        self.tokenizer = tokenizer
        self.strings = tokenizer.vocabulary()  # of each id
        first = tokenizer.encode(["a"]).tokens
        # SentencePiece adds a space before a text, and removes it when it decodes.
        self.space = bool(len(first)) and self.strings[int(first[0])].startswith(b" ")
        opening = tokenizer.tokenizer.encode("", add_special_tokens=True).ids
        end = opening[-1:] if len(opening) > 1 else []
        self.opening: list[int] = opening[: len(opening) - len(end)]  # of every text
        self.byte_ids = {s[0]: i for i, s in enumerate(self.strings) if len(s) == 1}

    def encode(self, string: bytes) -> tuple[list[int], list[int]]:
        """Return the ids of ``string``, and the byte offset of the end of each token."""
        if self.space and string.startswith(b" "):
            ids, ends = self.encode(string[1:])
            return ids, [end + 1 for end in ends]
        if not string:
            return [], []
        text, positions = lossy(string)
        entry = self.tokenizer.tokenizer.encode(text, add_special_tokens=False)
        return entry.ids, [positions[end] for _, end in entry.offsets]

    def string_of(self, ids: list[int], first: bool = False) -> bytes:
        """Return the bytes of ids; with ``first``, they are at the beginning of a text."""
        string = b"".join(self.strings[i] for i in ids if 0 <= i < len(self.strings))
        return string[1:] if first and self.space and string.startswith(b" ") else string


Encoding = Bytes | Encoder  # ways to split bytes into tokens


@dataclass
class Aligned:
    """The ids of a growing text, at a cost proportional to the new part."""

    encoder: Encoding
    text: bytes = b""
    ids: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # byte offset of the end of each token

    def extend(self, string: bytes) -> None:
        """Append ``string``, which may change the last tokens."""
        self.text += string
        keep = max(0, len(self.ids) - LOOK_BEHIND)
        ids, ends = self._window(keep)
        old, new, stretch = longest_stretch(self.ids[keep:], self.ends[keep:], ids, ends)
        if not stretch and keep:  # the two encodings share no token: encode the whole text
            keep, (ids, ends) = 0, self._window(0)
        elif stretch:
            keep += old + stretch
            ids, ends = ids[new + stretch :], ends[new + stretch :]
        self.ids[keep:], self.ends[keep:] = ids, ends

    def _window(self, keep: int) -> tuple[list[int], list[int]]:
        start = self.ends[keep - 1] if keep else 0
        ids, ends = self.encoder.encode(self.text[start:])
        return ids, [start + end for end in ends]

    def continuation(self, string: bytes) -> list[int] | None:
        """Return the ids of ``string`` after the text; None if no token begins there."""
        keep = max(0, len(self.ids) - LOOK_BEHIND)
        start = self.ends[keep - 1] if keep else 0
        ids, ends = self.encoder.encode(self.text[start:] + string)
        here = len(self.text) - start
        if not here:
            return ids
        after = bisect_right(ends, here)
        return ids[after:] if after and ends[after - 1] == here else None


def longest_stretch(
    ids: list[int], ends: list[int], new_ids: list[int], new_ends: list[int]
) -> tuple[int, int, int]:
    """Return the start of the longest common run of tokens in each list, and its length.

    Of several, return the last. Tokens that end at the same offset, such as the bytes of a
    character, are distinguished by their order.
    """
    position = {key: i for i, key in enumerate(_keys(ids, ends))}
    best, run = (0, 0, 0), 0
    before = -2
    for j, key in enumerate(_keys(new_ids, new_ends)):
        i = position.get(key, -2)
        run = run + 1 if i == before + 1 and run else int(i >= 0)
        before = i
        if run and run >= best[2]:
            best = (i - run + 1, j - run + 1, run)
    return best


def _keys(ids: list[int], ends: list[int]) -> list[tuple[int, int, int]]:
    ending = groupby(zip(ids, ends, strict=True), key=itemgetter(1))
    return [(i, end, order) for end, tokens in ending for order, (i, _) in enumerate(tokens)]
