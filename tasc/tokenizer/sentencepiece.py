"""A tokenizer from a SentencePiece model file, without that library.

The file is a protocol buffer (sentencepiece_model.proto): pieces with a score and a type, and the
specifications of the trainer (which algorithm) and of the normalizer. BPE pieces say how good they
are, not what they were merged from: any two pieces that spell a third may merge, the best first.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers

from tasc.data.foreign import told
from tasc.errors import InputError
from tasc.tokenizer.token_bytes import MARK

BPE, UNIGRAM = 2, 1
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6
_FIRST = b"\x0a"  # field 1, the first piece
_LONGEST = 4096  # bytes of a piece; real ones have 64 at most
_VARINT = 10  # bytes of an integer
_ADVICE = "get the file again, or give a tokenizer.json"


@dataclass
class Pieces:
    """What a SentencePiece model says."""

    pieces: list[tuple[str, float, int]] = field(default_factory=list)  # text, score, type
    algorithm: int = UNIGRAM
    charsmap: bytes = b""  # compiled normalization rules
    prefix: bool = True  # a space is put before the text
    squeeze: bool = True  # runs of spaces become one

    def names(self, kind: int) -> list[str]:
        """Return the texts of the pieces of a type."""
        return [text for text, _, its in self.pieces if its == kind]


def is_sentencepiece(path: Path) -> bool:
    """Whether the file looks like a SentencePiece model: a piece, then its text."""
    with path.open("rb") as file:
        head = file.read(3)
    return head[:1] == _FIRST and head[2:] == _FIRST


def read_sentencepiece(path: Path, contents: bytes) -> tuple[Tokenizer, str]:
    """Return the tokenizer of a model file and its end token; it puts no tokens around a text.

    Raises InputError when ``contents`` cannot be read or its algorithm is neither BPE nor Unigram.
    """
    try:
        model = _parse(contents)
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise InputError(f"{path}: not a SentencePiece model: {error}; {_ADVICE}") from None
    if model.algorithm not in {BPE, UNIGRAM}:
        raise InputError(
            f"{path}: a SentencePiece model of words or characters, not of pieces; give one of "
            "type bpe or unigram"
        )
    control = model.names(CONTROL)
    end = next((name for name in ("</s>", "<eos>", "<|endoftext|>") if name in control), "</s>")
    with told(f"{path}: not a SentencePiece model", _ADVICE):
        return build(model), end


def merges_of(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Every way to put two pieces together to a third, best piece first."""
    order = {piece: position for position, piece in enumerate(scores)}
    found = [
        (-score, order[piece], order[left], order[right], left, right)
        for piece, score in scores.items()
        for cut in range(1, len(piece))
        if (left := piece[:cut]) in scores and (right := piece[cut:]) in scores
    ]
    return [(left, right) for *_, left, right in sorted(found)]


def build(model: Pieces) -> Tokenizer:
    """Return the tokenizer that cuts texts as ``model`` says."""
    unknown = next(iter(model.names(UNKNOWN)), None)
    fallback = bool(model.names(BYTE))
    if model.algorithm == BPE:
        vocabulary = {text: position for position, (text, _, _) in enumerate(model.pieces)}
        scores = {text: score for text, score, kind in model.pieces if kind in {NORMAL, USER}}
        made = Tokenizer(
            models.BPE(
                vocabulary,
                merges_of(scores),
                unk_token=unknown,
                fuse_unk=True,
                byte_fallback=fallback,
            )
        )
    else:
        entries = [(text, score) for text, score, _ in model.pieces]
        position = None if unknown is None else [text for text, _ in entries].index(unknown)
        made = Tokenizer(models.Unigram(entries, unk_id=position, byte_fallback=fallback))
    _surround(made, model, fallback=fallback)
    names = [unknown] if unknown is not None else []
    special = [*names, *model.names(CONTROL)]
    made.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in special])
    made.add_tokens([AddedToken(name, normalized=False) for name in model.names(USER)])
    return made


def _surround(made: Tokenizer, model: Pieces, *, fallback: bool) -> None:
    """Normalizer and decoder: spaces become marks on the way in, and back; nothing is split."""
    steps: list[normalizers.Normalizer] = []
    steps += [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.squeeze:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    steps += [normalizers.Prepend(MARK)] if model.prefix else []
    made.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", MARK)])
    parts: list[decoders.Decoder] = [decoders.Replace(MARK, " ")]
    parts += [decoders.ByteFallback()] if fallback else []
    parts.append(decoders.Fuse())
    parts += [decoders.Strip(" ", 1, 0)] if model.prefix else []
    made.decoder = decoders.Sequence(parts)


def _parse(data: bytes) -> Pieces:
    model = Pieces()
    for number, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            entry = dict(_fields(value))
            text, score = entry[1], entry.get(2, b"\0\0\0\0")
            if not isinstance(text, bytes) or not isinstance(score, bytes):
                raise ValueError("a piece without text or score")
            if len(text) > _LONGEST:
                raise ValueError(f"a piece of {len(text)} bytes")
            kind = entry.get(3, NORMAL)
            model.pieces.append((text.decode(), struct.unpack("<f", score)[0], int(kind)))
        elif number == 2:
            model.algorithm = int(dict(_fields(value)).get(3, UNIGRAM))
        elif number == 3:
            rules = dict(_fields(value))
            charsmap = rules.get(2, b"")
            model.charsmap = charsmap if isinstance(charsmap, bytes) else b""
            model.prefix, model.squeeze = bool(rules.get(3, 1)), bool(rules.get(4, 1))
    if not model.pieces:
        raise ValueError("it has no pieces")
    if len({text for text, _, _ in model.pieces}) < len(model.pieces):
        raise ValueError("a piece is there twice")
    return model


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer message: number, and an integer or the bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        sizes = {1: 8, 5: 4}
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in sizes:
            size = sizes[wire]
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
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
