"""The tokenizer of a GGUF file: byte-level BPE, or SentencePiece's BPE.

The file has the vocabulary, its types, the merges (or scores) and the name of the pre-tokenizer,
which stands for the patterns of ``tasc.tokenizer.patterns``.
"""

import json
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

    Raises:
        InputError: the file is damaged, or llama.cpp's kind of tokenizer is not supported.
    """
    header = read_header(path)
    tokens, kinds = _vocabulary(header)
    model = header.get(f"{_PREFIX}model", str)
    builders = {"gpt2": _byte_level, "llama": _sentencepiece}
    if model not in builders:
        raise InputError(
            f"{path} has a tokenizer of kind {model!r:.60}, but only {' and '.join(builders)} are "
            "supported: use the model's folder in transformers' format"
        )
    with as_input_error(f"{path}: its tokenizer cannot be built", ADVICE):
        tokenizer = builders[model](header, tokens, kinds)
        special = {name: _special(header, field, tokens) for field, name in _NAMED.items()}
        _begin_texts(header, model, tokenizer, special["bos_token"])
    return tokenizer, _companions(header, special)


def _vocabulary(header: GgufHeader) -> tuple[list[str], list[int]]:
    """Return texts and types by id, without the unused ids at the end."""
    tokens, kinds = (_list(header, "tokens", str), _list(header, "token_type", int))
    if len(kinds) != len(tokens):
        raise InputError(
            f"{header.path} has {len(tokens)} tokens, but {len(kinds)} types: {ADVICE}"
        )
    size = next((i for i in range(len(kinds), 0, -1) if kinds[i - 1] != _UNUSED), 0)
    if len(set(tokens[:size])) < size:
        raise InputError(f"{header.path}: a token occurs twice in the vocabulary: {ADVICE}")
    return tokens[:size], kinds[:size]


def _list(header: GgufHeader, name: str, kind: type) -> list[Any]:
    values = header.get(_PREFIX + name, list)
    if values and type(values[0]) is not kind:
        raise InputError(
            f"{header.path}: {_PREFIX}{name} is not a list of {kind.__name__}: {ADVICE}"
        )
    return values


def _byte_level(header: GgufHeader, tokens: list[str], kinds: list[int]) -> Tokenizer:
    name = header.get(f"{_PREFIX}pre", str, "default")
    if name not in PRE_TOKENIZERS:
        raise InputError(
            f"{header.path} has the pre-tokenizer {name!r:.60}, which is not supported: use the "
            "model's folder in transformers' format"
        )
    vocabulary = {token: i for i, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in _list(header, "merges", str)]
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=name in WHOLE))
    if name in COMPOSING:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = byte_level(*PRE_TOKENIZERS[name])
    tokenizer.decoder = decoders.ByteLevel()
    for kind, special in ((_CONTROL, True), (_USER, False)):
        texts = [token for token, its in zip(tokens, kinds, strict=True) if its == kind]
        added = [AddedToken(text, special=special, normalized=False) for text in texts]
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)(added)
    return tokenizer


def _sentencepiece(header: GgufHeader, tokens: list[str], kinds: list[int]) -> Tokenizer:
    scores = _list(header, "scores", float)[: len(tokens)]
    pieces = list(zip(tokens, scores, kinds, strict=True))
    prefix = header.get(f"{_PREFIX}add_space_prefix", bool, True)
    return sentencepiece.build(
        sentencepiece.Pieces(pieces, sentencepiece.BPE, prefix=prefix, squeeze=False)
    )


def _special(header: GgufHeader, field: str, tokens: list[str]) -> str | None:
    name = f"{_PREFIX}{field}_token_id"
    if name not in header.fields:
        return None
    position = header.get(name, int)
    if not 0 <= position < len(tokens):
        raise InputError(
            f"{header.path}: {name} is {position}, but there are {len(tokens)} tokens: {ADVICE}"
        )
    return tokens[position]


def _begin_texts(header: GgufHeader, model: str, tokenizer: Tokenizer, first: str | None) -> None:
    """Let every text begin with ``first`` if the file requires it; the default is llama.cpp's."""
    default = model == "llama" or header.fields.get(f"{_PREFIX}pre") in WHOLE
    if not header.get(f"{_PREFIX}add_bos_token", bool, default) or first is None:
        return
    ids = [(first, tokenizer.token_to_id(first))]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[first, "$A"], pair=[first, "$A", first, "$B:1"], special_tokens=ids
    )


def _companions(header: GgufHeader, special: dict[str, str | None]) -> dict[str, bytes]:
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    config |= {name: token for name, token in special.items() if token is not None}
    files = {"tokenizer_config.json": json.dumps(config, indent=2).encode() + b"\n"}
    if template := header.get("tokenizer.chat_template", str, ""):
        files["chat_template.jinja"] = template.encode()
    return files
