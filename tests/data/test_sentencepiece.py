"""Reading SentencePiece model files."""

import struct

import pytest

from tasc.errors import InputError
from tasc.tokenizer import sentencepiece
from tasc.tokenizer.loaded import load_tokenizer

NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6
BYTES = [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
WORDS = ["▁a", "bc", "▁abc", "▁", "a", "b", "c"]
SPECIAL = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
SCORED = [(text, -1.0 - position, NORMAL) for position, text in enumerate(WORDS)]
PIECES = [*SPECIAL, *BYTES, *SCORED, ("[INST]", 0.0, USER)]


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """A protocol buffer of numbers below 128 and of bytes."""
    data = b""
    for number, value in fields:
        if isinstance(value, int):
            data += bytes([number << 3, value])
        else:
            size = len(value)
            data += bytes([number << 3 | 2])
            data += bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
            data += value
    return data


def model(algorithm=2, rules=((3, 1), (4, 0))) -> bytes:
    entries = []
    for text, score, kind in PIECES:
        scored = b"\x15" + struct.pack("<f", score)
        entries.append((1, message((1, text.encode())) + scored + message((3, kind))))
    return message(*entries, (2, message((3, algorithm))), (3, message(*rules)))


def load(folder, data: bytes):
    (folder / "tokenizer.model").write_bytes(data)
    return load_tokenizer(str(folder))


@pytest.mark.parametrize("algorithm", [1, 2])
def test_text_is_tokenized_and_comes_back(tmp_path, algorithm):
    loaded = load(tmp_path, model(algorithm))
    for text in ("abc", " abc  é日\n", "a[INST]b", ""):
        ids = loaded.encode([text]).tokens.tolist()
        spaced = text.replace("[INST]b", "[INST] b")  # as the library does after a control piece
        assert loaded.tokenizer.decode(ids, skip_special_tokens=False) == spaced
    assert loaded.tokenizer.encode("abc abc").tokens == ["▁abc", "▁abc"]
    assert loaded.vocabulary()[-1] == b"[INST]"
    assert loaded.vocabulary()[3 + 10] == b"\n"
    assert loaded.special_ids == {0, 1, 2}
    assert loaded.eos_id == 2


def test_spaces_are_squeezed_where_the_model_says_so(tmp_path):
    squeezed = load(tmp_path, model(rules=((3, 0), (4, 1))))
    assert squeezed.tokenizer.encode(" a   a ").tokens == ["a", "▁a"]


@pytest.mark.parametrize(
    ("data", "saw"),
    [
        (model()[:-1], "is not a SentencePiece model: it ends early"),
        (model(algorithm=3), "words or characters"),
        (b"\x0a\x02\x0a\x05", "not a SentencePiece model"),
        (b"\x0a\x03\x0a\x01\xff", "not a SentencePiece model"),
        (b"\x0a\x02\x0a\x00" + b"\xff" * 3, "not a SentencePiece model"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(tmp_path, data, saw):
    with pytest.raises(InputError, match=saw):
        load(tmp_path, data)


@pytest.mark.parametrize("name", ["llama2", "mistral-v1", "mistral-v3"])
def test_real_models(real_tokenizer, name):
    loaded = real_tokenizer(name)
    text = "naïve 日本語 😀 in therapy\n\n  two  12"
    ids = loaded.encode([text]).tokens.tolist()
    assert loaded.tokenizer.decode(ids) == text
    assert b"".join(loaded.vocabulary()[i] for i in ids).decode() == " " + text


@pytest.mark.parametrize("algorithm", [1, 2])
def test_a_large_vocabulary_is_built_once_and_again_if_its_copy_is_damaged(
    tmp_path, monkeypatch, algorithm
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sentencepiece, "_LARGE", len(PIECES))
    built = []

    def counted(pieces, new=sentencepiece._new):
        built.append(pieces)
        return new(pieces)

    monkeypatch.setattr(sentencepiece, "_new", counted)
    first = load(tmp_path, model(algorithm)).tokenizer.to_str()
    again = load(tmp_path, model(algorithm))
    assert len(built) == 1
    assert again.tokenizer.to_str() == first
    assert again.encode(["abc a[INST]b é"]).tokens.tolist()
    load(tmp_path, model(algorithm, rules=((3, 0), (4, 1))))
    assert len(built) == 2  # another model is another entry
    for copy in (tmp_path / "cache").rglob("sentencepiece-*.json"):
        copy.write_text("{")
    assert load(tmp_path, model(algorithm)).tokenizer.to_str() == first
    assert len(built) == 3


def test_a_small_vocabulary_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    load(tmp_path, model())
    assert not (tmp_path / "cache").exists()
