"""A model's tokenizer: the bytes of each token, and texts as flat arrays of ids."""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

from tasc.data.foreign import as_input_error, json_object
from tasc.errors import InputError
from tasc.tokenizer.check import check_tokenizer
from tasc.tokenizer.files import CONFIGS, read_tokenizer
from tasc.tokenizer.output_text import decoder_of
from tasc.tokenizer.token_bytes import special_tokens, token_speller, token_strings
from tasc.tokenizer.word_boundaries import cut_finely

_END_TOKENS = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<|im_end|>",
    "<eos>",
    "<|eot_id|>",
    "[SEP]",
)
_ADVICE = "fix the tokenizer, or remove the text"
# Limits of a batch: the library's encodings take 300 bytes and more per token.
_BATCH = 4096  # texts
_BATCH_BYTES = 1 << 20
_LONGEST = 4 << 20  # bytes of one text


@dataclass(frozen=True)
class Encoded:
    """Texts as token ids, concatenated."""

    tokens: np.ndarray  # (T,) int32, the ids of all texts
    offsets: np.ndarray  # (S+1,) int64, text i is ``tokens[offsets[i]:offsets[i + 1]]``

    @classmethod
    def of(cls, parts: Sequence[np.ndarray]) -> "Encoded":
        """Concatenate the ids (T_i,) int32 of each text."""
        offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        tokens = np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32)
        return cls(tokens, offsets)

    def split(self) -> list[np.ndarray]:
        """Return the ids (T_i,) int32 of each text."""
        return np.split(self.tokens, self.offsets[1:-1]) if len(self.offsets) > 1 else []


@dataclass(frozen=True, eq=False)
class LoadedTokenizer:
    """A tokenizer and its companion files."""

    tokenizer: Tokenizer  # without truncation or padding
    path: str  # as the user gave it: a file, a folder or a Hub id
    # Contents of the companion files by name, such as tokenizer_config.json.
    files: dict[str, bytes] = field(default_factory=dict)

    def vocabulary(self) -> list[bytes]:
        """Return the bytes of each id, ``b""`` for special tokens and unused ids.

        The length is the first id for a new token.
        """
        return list(self._strings)

    def spellings(self) -> list[bytes]:
        """Return the bytes of each id, special tokens included; ``b""`` for unused ids.

        The unknown token has none, as it stands for any text.
        """
        spelt, spell = self.vocabulary(), token_speller(self.tokenizer)
        unknown = self.tokenizer.token_to_id(getattr(self.tokenizer.model, "unk_token", "") or "")
        for token in self.special_ids - {unknown}:
            spelt[token] = spell(token)
        return spelt

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids without a text: special tokens and the unknown token."""
        return special_tokens(self.tokenizer)

    @cached_property
    def eos_id(self) -> int:
        """Id of the token that ends a sequence, by the companion files or by the usual names.

        Raises InputError if there is none.
        """
        for name in (*self._configured_ends(), *_END_TOKENS):
            token: int | None = self.tokenizer.token_to_id(name)
            if token is not None:
                return token
        raise InputError(
            f"{self.path}: the tokenizer has no end token; "
            "set eos_token in its tokenizer_config.json"
        )

    @cached_property
    def identity(self) -> bytes:
        """Hash of the bytes of each id and the end token. Raises InputError without one."""
        digest = hashlib.sha256(struct.pack("<q", self.eos_id))
        for string in self._strings:
            digest.update(struct.pack("<I", len(string)) + string)
        return digest.digest()

    def ending(self, token: str | None) -> "LoadedTokenizer":
        """Return the tokenizer with the end token ``token``; unchanged if that is None."""
        if token is None or next(self._configured_ends(), None) == token:
            return self
        changed = {}
        for name in CONFIGS:
            if name in self.files or name == CONFIGS[0]:
                config = self.config(name) | {"eos_token": token}
                changed[name] = json.dumps(config, indent=2, ensure_ascii=False).encode() + b"\n"
        return replace(self, files=self.files | changed)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Encode each text separately, without special tokens around it."""
        parts = [
            np.asarray(entry.ids, dtype=np.int32)
            for batch in _batches(texts)
            for entry in self._entries(self.tokenizer.encode_batch_fast, batch)
        ]
        return Encoded.of(parts)

    def encode_with_boundaries(self, texts: Sequence[str]) -> tuple[Encoded, np.ndarray]:
        """Return ``encode(texts)``, and (T,) uint8: 1 for tokens that start a pre-token.

        Pre-tokens come from the tokenizer's pre-tokenizer, split further for tokenizers that mark
        spaces (``tasc.tokenizer.word_boundaries``). An added token is a pre-token.
        """
        parts, starts = [], []
        for batch in _batches(texts):
            for entry in self._entries(self._cut.encode_batch, batch):
                parts.append(np.asarray(entry.ids, dtype=np.int32))
                words = np.asarray(entry.word_ids, dtype=np.int64)
                starts.append((np.diff(words, prepend=-1) != 0).astype(np.uint8))
        return Encoded.of(parts), np.concatenate([np.zeros(0, np.uint8), *starts])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids, special tokens included."""
        return decoder_of(self.tokenizer)(list(ids))

    def decode_batch(self, texts: Sequence[np.ndarray]) -> list[str]:
        """Return the text of the ids (T_i,) of each text, special tokens included."""
        with as_input_error(self.path, _ADVICE):
            return self.tokenizer.decode_batch(
                [ids.tolist() for ids in texts], skip_special_tokens=False
            )

    def _entries(self, encode: Callable[..., list[Encoding]], batch: list[str]) -> list[Encoding]:
        with as_input_error(self.path, _ADVICE):
            return encode(batch, add_special_tokens=False)

    @cached_property
    def _cut(self) -> Tokenizer:
        return cut_finely(self.tokenizer)

    @cached_property
    def _strings(self) -> list[bytes]:
        return token_strings(self.tokenizer)

    def _configured_ends(self) -> Iterator[str]:
        named = (self.named_tokens(name) for name in CONFIGS)
        return (tokens["eos_token"] for tokens in named if "eos_token" in tokens)

    def named_tokens(self, name: str) -> dict[str, str]:
        """Return the special tokens in a companion file by their keys, such as eos_token."""
        tokens = {}
        for key, entry in self.config(name).items():
            content = entry.get("content") if isinstance(entry, dict) else entry
            if key.endswith("_token") and isinstance(content, str):
                tokens[key] = content
        return tokens

    def config(self, name: str) -> dict[str, Any]:
        """Return the JSON object of a companion file, empty if there is none."""
        return json_object(self.files.get(name, b"{}"), f"{self.path}: {name}")


def load_tokenizer(path_or_id: str) -> LoadedTokenizer:
    """Load a tokenizer.json, a SentencePiece model or a tiktoken file of a known encoding.

    A folder has one of them, or GPT-2's pair (vocab.json + merges.txt, or encoder.json +
    vocab.bpe), and so does the repository of a Hub id. Raises InputError if there is none or it is
    unusable (``tasc.tokenizer.check``), UnavailableError if the Hub cannot be reached.
    """
    tokenizer, files = read_tokenizer(path_or_id)
    check_tokenizer(tokenizer, path_or_id)
    return LoadedTokenizer(tokenizer, path_or_id, files)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    room = _BATCH_BYTES
    for position, text in enumerate(texts, start=1):
        size = len(text.encode(errors="surrogatepass"))
        if size > _LONGEST:
            raise InputError(
                f"text {position} of {len(texts)} has {size:,} bytes, more than {_LONGEST:,}: "
                "split it"
            )
        if batch and (size > room or len(batch) == _BATCH):
            yield batch
            batch, room = [], _BATCH_BYTES
        batch.append(text)
        room -= size
    if batch:
        yield batch
