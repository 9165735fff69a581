"""Byte-level BPE from a tiktoken file (lines "base64-of-bytes rank"), without that library.

A tiktoken file has no merges: a pair may merge when its bytes are a token, the lowest rank first.
A token's own merge is found by merging its bytes with the lower ranks only, which leaves two parts.
Inside a text, no lower merge crossed the token's borders, so the same two parts meet there.
"""

import base64
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tasc.data.foreign import told
from tasc.errors import InputError
from tasc.tokenizer.patterns import CL100K, GPT2, O200K, QWEN2
from tasc.tokenizer.token_bytes import spell_bytes

_LONGEST = 1024  # bytes of a token; real ones have 128 at most


@dataclass(frozen=True)
class Encoding:
    """What a tiktoken file leaves out: the pattern of pre-tokens and the special tokens."""

    name: str  # what the encoding is called
    pattern: str  # regular expression of one pre-token
    # Special tokens and their ids; unused ids between them become reserved tokens.
    special: dict[str, int]
    end: str  # the token that ends a sequence
    normalize: bool = False  # whether text is brought to Unicode NFC first
    whole: bool = True  # whether a pre-token that is itself a token is taken without merging


_LLAMA3 = {
    "<|begin_of_text|>": 128000,
    "<|end_of_text|>": 128001,
    "<|start_header_id|>": 128006,
    "<|end_header_id|>": 128007,
    "<|eot_id|>": 128009,
    "<|reserved_special_token_250|>": 128255,
}
_CHATML = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
_FILL = {"<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260}
# The number of ranks tells the encodings apart, whatever the file is called.
_ENCODINGS = {
    50256: Encoding("gpt2", GPT2, {"<|endoftext|>": 50256}, "<|endoftext|>"),
    100256: Encoding(
        "cl100k_base",
        CL100K,
        {"<|endoftext|>": 100257, **_FILL, "<|endofprompt|>": 100276},
        "<|endoftext|>",
    ),
    128000: Encoding("llama3", CL100K, _LLAMA3, "<|end_of_text|>"),
    151643: Encoding("qwen2", QWEN2, _CHATML, "<|endoftext|>", normalize=True, whole=False),
    199998: Encoding(
        "o200k_base", O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}, "<|endoftext|>"
    ),
}


def is_tiktoken(path: Path) -> bool:
    """Whether the file starts with a tiktoken line."""
    with path.open("rb") as lines:
        return _parse(lines.readline(4096)) is not None


def read_tiktoken(path: Path, contents: bytes) -> tuple[Tokenizer, str]:
    """Return the tokenizer of a tiktoken file with these contents, and its end token.

    Raises:
        InputError: a line is not "base64 rank", or the vocabulary is none of the known ones.
    """
    ranks = _read_ranks(path, contents)
    encoding = _ENCODINGS.get(len(ranks))
    if encoding is None:
        known = ", ".join(f"{entry.name} ({size})" for size, entry in _ENCODINGS.items())
        raise InputError(
            f"{path}: a tiktoken file of {len(ranks)} tokens is not one of {known}; "
            "give a tokenizer.json, which says how text is split"
        )
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise InputError(f"{path}: the ranks are not 0 to {len(ranks) - 1}: get the file again")
    with told(f"{path}: not a tiktoken file", "get the file again"):
        return _build(ranks, encoding), encoding.end


def _parse(line: bytes) -> tuple[bytes, int] | None:
    parts = line.split()
    if len(parts) != 2 or not parts[1].isdigit():
        return None
    try:
        string, rank = base64.b64decode(parts[0], validate=True), int(parts[1])
    except ValueError:
        return None
    return (string, rank) if len(string) <= _LONGEST else None


def _read_ranks(path: Path, contents: bytes) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(contents.splitlines(), start=1):
        entry = _parse(line)
        if entry is None and line.strip():
            raise InputError(
                f"{path}:{number}: expected 'base64 rank', saw {line[:40]!r}: get the file again"
            )
        if entry is not None:
            ranks[entry[0]] = entry[1]
    return ranks


def _build(ranks: dict[bytes, int], encoding: Encoding) -> Tokenizer:
    spelled = {string: spell_bytes(string) for string in ranks}
    vocabulary = {spelled[string]: rank for string, rank in ranks.items()}
    merges = [(spelled[left], spelled[right]) for left, right in merges_of(ranks)]
    model = models.BPE(vocabulary, merges, ignore_merges=encoding.whole)
    tokenizer = Tokenizer(model)
    if encoding.normalize:
        tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(encoding.pattern), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(_special_names(len(ranks), encoding.special))
    return tokenizer


def _special_names(first: int, special: dict[str, int]) -> list[str]:
    """Names for every id from ``first`` to the last: a hole would shift what follows."""
    names = {token: name for name, token in special.items()}
    return [names.get(token, f"<|reserved_{token}|>") for token in range(first, max(names) + 1)]


def merges_of(ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Return the merge that makes each token, in order of rank.

    A token that the lower ranks do not bring down to two parts is never made by merging and has
    no merge.
    """
    merges = []
    for string, rank in sorted(ranks.items(), key=lambda entry: entry[1]):
        parts = _parts(string, rank, ranks)
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
    return merges


def _parts(string: bytes, limit: int, ranks: dict[bytes, int]) -> list[bytes]:
    """Merge the bytes of ``string`` by the ranks below ``limit``, lowest first, leftmost first."""
    parts = [string[position : position + 1] for position in range(len(string))]
    unknown = limit
    while len(parts) > 2:
        best, position = min(
            (ranks.get(parts[index] + parts[index + 1], unknown), index)
            for index in range(len(parts) - 1)
        )
        if best >= limit:
            break
        parts[position : position + 2] = [parts[position] + parts[position + 1]]
    return parts
