"""Tokenizers from SentencePiece model files, without that library.

The file is a protocol buffer (sentencepiece_model.proto): pieces with a score and a type, and the
specifications of the trainer (the algorithm) and of the normalizer. BPE models store no merges: any
two pieces that form a third may merge, the highest score first.
"""

import hashlib
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers

from tasc.data.foreign import as_input_error
from tasc.errors import InputError
from tasc.files.cache import cache_folder
from tasc.files.disk import replacing
from tasc.tokenizer.token_bytes import MARK

BPE, UNIGRAM = 2, 1
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6
_FIRST = b"\x0a"  # field 1, the first piece
_LARGE = 1 << 16  # pieces from which a tokenizer is kept; fewer are built in a second
_LONGEST = 4096  # bytes of a piece; published models have at most 64
_VARINT = 10  # bytes of an integer
_SIZES = {1: 8, 2: 0, 5: 4}  # bytes of a value by wire type; 2 has its own size
_ADVICE = "download the file again, or pass a tokenizer.json"


@dataclass
class Pieces:
    """The contents of a SentencePiece model."""

    pieces: list[tuple[str, float, int]] = field(default_factory=list)  # text, score, type
    algorithm: int = UNIGRAM
    charsmap: bytes = b""  # compiled normalization rules
    prefix: bool = True  # whether a space is added before the text
    squeeze: bool = True  # whether runs of spaces become one

    def names(self, kind: int) -> list[str]:
        return [text for text, _, its in self.pieces if its == kind]


def is_sentencepiece(path: Path) -> bool:
    """Return whether the file looks like a SentencePiece model: a piece that begins with a text."""
    with path.open("rb") as file:
        head = file.read(3)
    return head[:1] == _FIRST and head[2:] == _FIRST


def read_sentencepiece(path: Path, contents: bytes) -> tuple[Tokenizer, str]:
    """Return the tokenizer of a model file, and its end token.

    The tokenizer adds no special tokens around a text. Raises InputError if ``contents`` cannot be
    read or the algorithm is neither BPE nor Unigram.
    """
    try:
        model = _parse(contents)
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise InputError(f"{path} is not a SentencePiece model: {error}; {_ADVICE}") from None
    if model.algorithm not in {BPE, UNIGRAM}:
        raise InputError(
            f"{path} is a SentencePiece model of words or characters: use one of type bpe or "
            "unigram"
        )
    control = model.names(CONTROL)
    end = next((name for name in ("</s>", "<eos>", "<|endoftext|>") if name in control), "</s>")
    with as_input_error(f"{path} is not a SentencePiece model", _ADVICE):
        return build(model), end


def build(model: Pieces) -> Tokenizer:
    """Return the tokenizer of a model; that of a large vocabulary is kept in tasc's cache.

    BPE models store no merges. To find them takes seconds for 262,144 pieces, and most of the time
    that a model with such a vocabulary takes to load.
    """
    if len(model.pieces) < _LARGE:
        return _new(model)
    path = cache_folder() / f"sentencepiece-{_fingerprint(model)}.json"
    with suppress(Exception):  # tokenizers raises no narrower class for a damaged file
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    tokenizer = _new(model)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as new:
            new.write_text(tokenizer.to_str(), encoding="utf-8")
    return tokenizer


def _fingerprint(model: Pieces) -> str:
    """Return a hash of all that the tokenizer depends on, this file included."""
    texts, scores, kinds = zip(*model.pieces, strict=True)
    options = model.algorithm, model.prefix, model.squeeze, tokenizers.__version__
    digest = hashlib.sha256(repr(options).encode())
    for part in (
        Path(__file__).read_bytes(),
        model.charsmap,
        "\0".join(texts).encode(),
        struct.pack(f"<{len(scores)}d", *scores),
        struct.pack(f"<{len(kinds)}q", *kinds),
    ):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:24]


def _new(model: Pieces) -> Tokenizer:
    tokenizer = Tokenizer(_model(model))
    tokenizer.normalizer = _normalizer(model)
    tokenizer.decoder = _decoder(model)
    special = [*model.names(UNKNOWN)[:1], *model.names(CONTROL)]
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in model.names(USER)])
    return tokenizer


def _model(model: Pieces) -> models.Model:
    from transformers.convert_slow_tokenizer import generate_merges

    unknown = next(iter(model.names(UNKNOWN)), None)
    fallback = bool(model.names(BYTE))
    ids = {text: i for i, (text, _, _) in enumerate(model.pieces)}
    if model.algorithm == BPE:
        scores = {text: score for text, score, kind in model.pieces if kind in {NORMAL, USER}}
        merges = generate_merges({text: ids[text] for text in scores}, scores)
        return models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=fallback)
    entries = [(text, score) for text, score, _ in model.pieces]
    unk_id = None if unknown is None else ids[unknown]
    return models.Unigram(entries, unk_id=unk_id, byte_fallback=fallback)


def _normalizer(model: Pieces) -> normalizers.Normalizer:
    """Turn spaces into marks; the text is not split."""
    steps: list[normalizers.Normalizer] = []
    steps += [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.squeeze:
        steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" +"), " ")]
    steps += [normalizers.Prepend(MARK)] if model.prefix else []
    return normalizers.Sequence([*steps, normalizers.Replace(" ", MARK)])


def _decoder(model: Pieces) -> decoders.Decoder:
    """Turn marks into spaces, and bytes into characters."""
    steps: list[decoders.Decoder] = [decoders.Replace(MARK, " ")]
    steps += [decoders.ByteFallback()] if model.names(BYTE) else []
    steps.append(decoders.Fuse())
    steps += [decoders.Strip(" ", 1, 0)] if model.prefix else []
    return decoders.Sequence(steps)


def _parse(data: bytes) -> Pieces:
    model = Pieces()
    for number, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            model.pieces.append(_piece(value))
        elif number == 2:
            model.algorithm = int(dict(_fields(value)).get(3, UNIGRAM))
        elif number == 3:
            rules = dict(_fields(value))
            charsmap = rules.get(2, b"")
            model.charsmap = charsmap if isinstance(charsmap, bytes) else b""
            model.prefix, model.squeeze = bool(rules.get(3, 1)), bool(rules.get(4, 1))
    if not model.pieces:
        raise ValueError("there are no pieces")
    if len({text for text, _, _ in model.pieces}) < len(model.pieces):
        raise ValueError("a piece is repeated")
    return model


def _piece(data: bytes) -> tuple[str, float, int]:
    entry = dict(_fields(data))
    text, score = entry[1], entry.get(2, b"\0\0\0\0")
    if not isinstance(text, bytes) or not isinstance(score, bytes):
        raise ValueError("a piece without text or score")
    if len(text) > _LONGEST:
        raise ValueError(f"a piece of {len(text)} bytes")
    return text.decode(), struct.unpack("<f", score)[0], int(entry.get(3, NORMAL))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protocol buffer message: their number, and an integer or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire not in _SIZES:
            raise ValueError(f"wire type {wire} at byte {at}")
        size, at = _varint(data, at) if wire == 2 else (_SIZES[wire], at)
        if at + size > len(data):
            raise ValueError("it ends early")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for position in range(_VARINT):
        byte = data[at + position]
        value |= (byte & 127) << 7 * position
        if byte < 128:
            return value, at + position + 1
    raise ValueError(f"an integer without end at byte {at}")
