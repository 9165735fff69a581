"""Byte-level BPE from tiktoken files (lines "base64-of-bytes rank"), without that library.

A tiktoken file has no merges: neighbours merge if their bytes are a token, the lowest rank first.
"""

import base64
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers

from tasc.data.foreign import as_input_error
from tasc.errors import InputError
from tasc.tokenizer.patterns import CL100K, GPT2, O200K, QWEN2, byte_level
from tasc.tokenizer.token_bytes import spell_bytes

_LONGEST = 1024  # bytes of a token; published ones have at most 128


@dataclass(frozen=True)
class Encoding:
    """The parts of an encoding that are not in its tiktoken file."""

    name: str
    pattern: str  # regular expression of one pre-token
    special: dict[str, int]  # special tokens and their ids
    end: str  # the token that ends a sequence
    normalize: bool = False  # whether text is normalized to Unicode NFC
    ignore_merges: bool = True  # whether a pre-token that is a token is encoded without merging


_END = "<|endoftext|>"
_LLAMA3 = {
    "<|begin_of_text|>": 128000,
    "<|end_of_text|>": 128001,
    "<|start_header_id|>": 128006,
    "<|end_header_id|>": 128007,
    "<|eot_id|>": 128009,
    "<|reserved_special_token_250|>": 128255,
}
_CHATML = {_END: 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
_FILL = {"<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260}
_CL100K = {_END: 100257, **_FILL, "<|endofprompt|>": 100276}
# By the number of ranks, which differs between encodings.
_ENCODINGS = {
    50256: Encoding("gpt2", GPT2, {_END: 50256}, _END),
    100256: Encoding("cl100k_base", CL100K, _CL100K, _END),
    128000: Encoding("llama3", CL100K, _LLAMA3, "<|end_of_text|>"),
    151643: Encoding("qwen2", QWEN2, _CHATML, _END, normalize=True, ignore_merges=False),
    199998: Encoding("o200k_base", O200K, {_END: 199999, "<|endofprompt|>": 200018}, _END),
}


def is_tiktoken(path: Path) -> bool:
    """Return whether the file starts with a tiktoken line."""
    with path.open("rb") as lines:
        return _parse(lines.readline(4096)) is not None


def read_tiktoken(path: Path, contents: bytes) -> tuple[Tokenizer, str]:
    """Return the tokenizer of a tiktoken file, and its end token.

    Raises InputError if a line is not "base64 rank", or the encoding is unknown.
    """
    ranks = _read_ranks(path, contents)
    encoding = _ENCODINGS.get(len(ranks))
    if encoding is None:
        encodings = ", ".join(f"{entry.name} ({size})" for size, entry in _ENCODINGS.items())
        raise InputError(
            f"{path} is a tiktoken file of {len(ranks)} tokens, and not one of {encodings}: pass a "
            "tokenizer.json, which contains the pattern that splits text"
        )
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise InputError(
            f"{path}: the ranks are not 0 to {len(ranks) - 1}: download the file again"
        )
    with as_input_error(f"{path} is not a tiktoken file", "download the file again"):
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
                f"{path}:{number}: expected 'base64 rank', found {line[:40]!r}: "
                "download the file again"
            )
        if entry is not None:
            ranks[entry[0]] = entry[1]
    return ranks


def _build(ranks: dict[bytes, int], encoding: Encoding) -> Tokenizer:
    tokenizer = Tokenizer(bpe(ranks, ignore_merges=encoding.ignore_merges))
    if encoding.normalize:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = byte_level(encoding.pattern)
    tokenizer.decoder = decoders.ByteLevel()
    # Reserved tokens fill the holes between the special ids, so that each one gets its own.
    names = {token: name for name, token in encoding.special.items()}
    special = range(len(ranks), max(names) + 1)
    tokenizer.add_special_tokens([names.get(i, f"<|reserved_{i}|>") for i in special])
    return tokenizer


def bpe(ranks: dict[bytes, int], *, ignore_merges: bool = False) -> models.BPE:
    """Return the BPE model that merges the neighbours of the lowest rank first."""
    from transformers.convert_slow_tokenizer import generate_merges

    vocabulary = {spell_bytes(string): rank for string, rank in ranks.items()}
    merges = generate_merges(vocabulary, None)
    return models.BPE(vocabulary, merges, ignore_merges=ignore_merges)
