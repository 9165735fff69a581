"""The tokenizer of a GGUF file: byte-level BPE, or SentencePiece's BPE.

The file has the vocabulary, its types, the merges (or scores) and the name of the pre-tokenizer,
which stands for the patterns of ``tasc.tokenizer.patterns``.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from tasc.data.foreign import as_input_error
from tasc.errors import InputError
from tasc.files.gguf_header import ADVICE, GgufHeader, read_header
from tasc.tokenizer import sentencepiece
from tasc.tokenizer.patterns import COMPOSING, PRE_TOKENIZERS, WHOLE, byte_level

_CONTROL, _USER, _UNUSED = 3, 4, 5  # types of tokens
_PREFIX = "tokenizer.ggml."
_NAMED = {"bos": "bos_token", "eos": "eos_token", "padding": "pad_token", "unknown": "unk_token"}


def read_gguf(path: Path) -> tuple[Tokenizer, dict[str, bytes]]:
    """Return the tokenizer of a GGUF file, and its companion files.

    Raises InputError if the file is damaged, or llama.cpp's kind of tokenizer is not supported.
    """
    read = _Vocabulary(read_header(path))
    builders = {"gpt2": read.byte_level, "llama": read.sentencepiece}
    if read.model not in builders:
        raise InputError(
            f"{path} has a tokenizer of kind {read.model!r:.60}, but only "
            f"{' and '.join(builders)} are supported: use the model's folder in transformers' "
            "format"
        )
    with as_input_error(f"{path}: its tokenizer cannot be built", ADVICE):
        tokenizer = builders[read.model]()
        read.begin_texts(tokenizer)
    return tokenizer, read.companions()


class _Vocabulary:
    """The fields of a header that describe its tokenizer."""

    def __init__(self, header: GgufHeader) -> None:
        """Read the ``tokens`` and their ``kinds`` by id, without the unused ids at the end."""
        self.header = header
        tokens, kinds = (self._list("tokens", str), self._list("token_type", int))
        if len(kinds) != len(tokens):
            raise InputError(
                f"{header.path} has {len(tokens)} tokens, but {len(kinds)} types: {ADVICE}"
            )
        size = next((i for i in range(len(kinds), 0, -1) if kinds[i - 1] != _UNUSED), 0)
        if len(set(tokens[:size])) < size:
            raise InputError(f"{header.path}: a token occurs twice in the vocabulary: {ADVICE}")
        self.tokens, self.kinds = tokens[:size], kinds[:size]
        self.model = header.get(f"{_PREFIX}model", str)

    def _list(self, name: str, kind: type) -> list[Any]:
        values = self.header.get(_PREFIX + name, list)
        if values and type(values[0]) is not kind:
            raise InputError(
                f"{self.header.path}: {_PREFIX}{name} is not a list of {kind.__name__}: {ADVICE}"
            )
        return values

    def byte_level(self) -> Tokenizer:
        name = self.header.get(f"{_PREFIX}pre", str, "default")
        if name not in PRE_TOKENIZERS:
            raise InputError(
                f"{self.header.path} has the pre-tokenizer {name!r:.60}, which is not supported: "
                "use the model's folder in transformers' format"
            )
        vocabulary = {token: i for i, token in enumerate(self.tokens)}
        pairs = [tuple(merge.split(" ")) for merge in self._list("merges", str)]
        tokenizer = Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=name in WHOLE))
        if name in COMPOSING:
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = byte_level(*PRE_TOKENIZERS[name])
        tokenizer.decoder = decoders.ByteLevel()
        for kind, add in ((_CONTROL, tokenizer.add_special_tokens), (_USER, tokenizer.add_tokens)):
            texts = [text for text, its in zip(self.tokens, self.kinds, strict=True) if its == kind]
            add([AddedToken(text, special=kind == _CONTROL, normalized=False) for text in texts])
        return tokenizer

    def sentencepiece(self) -> Tokenizer:
        scores = self._list("scores", float)[: len(self.tokens)]
        pieces = list(zip(self.tokens, scores, self.kinds, strict=True))
        prefix = self.header.get(f"{_PREFIX}add_space_prefix", bool, True)
        return sentencepiece.build(
            sentencepiece.Pieces(pieces, sentencepiece.BPE, prefix=prefix, squeeze=False)
        )

    @cached_property
    def special(self) -> dict[str, str]:
        special = {}
        for field in _NAMED:
            name = f"{_PREFIX}{field}_token_id"
            position = self.header.get(name, int, -1)
            if name in self.header.fields and not 0 <= position < len(self.tokens):
                raise InputError(
                    f"{self.header.path}: {name} is {position}, but there are {len(self.tokens)} "
                    f"tokens: {ADVICE}"
                )
            if position >= 0:
                special[_NAMED[field]] = self.tokens[position]
        return special

    def begin_texts(self, tokenizer: Tokenizer) -> None:
        """Let texts begin with the first token if the file requires it; llama.cpp's default."""
        first = self.special.get("bos_token")
        default = self.model == "llama" or self.header.fields.get(f"{_PREFIX}pre") in WHOLE
        if not self.header.get(f"{_PREFIX}add_bos_token", bool, default) or first is None:
            return
        ids = [(first, tokenizer.token_to_id(first))]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[first, "$A"], pair=[first, "$A", first, "$B:1"], special_tokens=ids
        )

    def companions(self) -> dict[str, bytes]:
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            **self.special,
        }
        files = {"tokenizer_config.json": json.dumps(config, indent=2).encode() + b"\n"}
        if template := self.header.get("tokenizer.chat_template", str, ""):
            files["chat_template.jinja"] = template.encode()
        return files
