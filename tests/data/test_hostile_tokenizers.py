"""Tokenizers that strangers broke: one line that names it, and a clean terminal."""

import base64
import json
import os
import re

import pytest

from tasc.data.quiet import captured_stderr
from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tests.data.files import no_file
from tests.pico import make_tokenizer

DEEP = b"[" * 100_000 + b"]" * 100_000


def changed(folder, change):
    """A pico tokenizer whose tokenizer.json, as JSON, was changed."""
    make_tokenizer(folder)
    path = folder / "tokenizer.json"
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state))
    return str(folder)


def refused(path, capfd):
    """The one line that is said, and nothing else on the terminal."""
    with pytest.raises(InputError) as caught:
        _ = load_tokenizer(path).eos_id
    line = str(caught.value)
    assert "\n" not in line
    assert path in line
    assert capfd.readouterr() == ("", "")
    return line


def model(**fields):
    return lambda state: state["model"].update(fields)


def part(name, value):
    return lambda state: state.update({name: value})


def split(regex):
    fields = {"type": "Split", "behavior": "Isolated", "invert": False}
    return part("pre_tokenizer", fields | {"pattern": {"Regex": regex}})


def added(**fields):
    return lambda state: state["added_tokens"].append(state["added_tokens"][0] | fields)


def replace(pattern, content=""):
    return part("normalizer", {"type": "Replace", "pattern": pattern, "content": content})


BROKEN = {
    "a prefix that merges lack": (model(continuing_subword_prefix="##"), "not a tokenizer.json"),
    "dropout": (model(dropout=0.1), "set the model's dropout to null"),
    "a huge id": (lambda state: state["model"]["vocab"].update(x1=2**32 - 2), "but ids end at"),
    "an id twice": (lambda state: state["model"]["vocab"].update(x1=7), "2 tokens have the id 7"),
    "no vocabulary": (model(vocab={}, merges=[]), "the vocabulary is empty"),
    "a merge of unknown tokens": (model(merges=[["x1", "x2"]]), "out of vocabulary"),
    "an added token beyond": (added(content="<x>", id=2**32 - 1), "fix added_tokens"),
    "an added token on another": (added(content="<x>", id=5), "fix added_tokens"),
    "a negative added token": (added(content="<x>", id=-1), "expected u32"),
    "backtracking without end": (split("(a+)+$"), "retry-limit"),
    "slow backtracking": (split("(?:(?:a|aa)+x|a|.)"), ""),
    "no regular expression": (split("("), "unmatched"),
    "an empty pattern to replace": (replace({"Regex": ""}, "b"), "out of bounds"),
    "a text that grows without end": (replace({"Regex": "a"}, "b" * 10**4), "took"),
    "a damaged table of characters": (
        part("normalizer", {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8="}),
        "out of bounds",
    ),
    "pieces of no length": (part("pre_tokenizer", {"type": "FixedLength", "length": 0}), "zero"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_tokenizer_is_refused_in_one_line(tmp_path, capfd, kind):
    change, why = BROKEN[kind]
    assert why in refused(changed(tmp_path / "tokenizer", change), capfd)


NO_JSON = [b"", b"[]", b"NaN", b"{", b"\xff\xfe", DEEP, b'{"model": ' + DEEP + b"}"]
COMPANIONS = ["tokenizer_config.json", "special_tokens_map.json"]
NO_COMPANION = [b"", b"[1]", b"{", b"\xff\xfe", DEEP, b'{"eos_token": "\\ud800"}', b"null"]


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        *(("tokenizer.json", contents) for contents in NO_JSON),
        *((name, contents) for name in COMPANIONS for contents in NO_COMPANION),
        ("chat_template.jinja", b"\xff"),
    ],
    ids=lambda given: repr(given)[:24],
)
def test_a_broken_file_of_a_tokenizer_is_refused_by_name(tmp_path, capfd, name, contents):
    make_tokenizer(tmp_path)
    (tmp_path / name).write_bytes(contents)
    said = rf"/{name} is (not (a tokenizer\.json|JSON|UTF-8)|a JSON (list|NoneType))"
    assert re.search(said, refused(str(tmp_path), capfd))


def test_truncation_that_the_library_cannot_do_is_taken_off(tmp_path):
    strange = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 5}
    loaded = load_tokenizer(changed(tmp_path, part("truncation", strange)))
    assert len(loaded.encode(["wake me up at nine"]).tokens) > 2


def test_a_panic_on_a_text_is_one_line(tmp_path, capfd):
    """A check at loading cannot see everything: a letter may do what no sample does."""
    loaded = load_tokenizer(changed(tmp_path, split("(q+)+$|.")))
    assert isinstance(loaded, LoadedTokenizer)
    with pytest.raises(InputError, match="retry-limit"):
        loaded.encode(["q" * 60 + "!"])
    assert capfd.readouterr().err == ""


def test_other_words_on_stderr_are_held_back_only_for_a_while(capfd):
    with captured_stderr():
        os.write(2, b"a warning")
        assert capfd.readouterr().err == ""
    assert capfd.readouterr().err == "a warning"


@pytest.mark.parametrize("where", ["tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_what_is_no_plain_file_is_never_read(tmp_path, capfd, where, kind):
    make_tokenizer(tmp_path)
    (tmp_path / where).unlink()
    no_file(tmp_path / where, kind)
    if where == "tokenizer.json":
        assert "has no tokenizer" in refused(str(tmp_path), capfd)
    else:
        assert load_tokenizer(str(tmp_path)).eos_id == 0


def test_a_tiktoken_file_with_ranks_of_its_own_is_refused(tmp_path, capfd):
    lines = [base64.b64encode(n.to_bytes(3)) + b" %d\n" % (n + 2**40) for n in range(50256)]
    (tmp_path / "x.tiktoken").write_bytes(b"".join(lines))
    assert "the ranks are not 0 to 50255" in refused(str(tmp_path / "x.tiktoken"), capfd)


@pytest.mark.parametrize("rank", [b"9" * 5000, b"-1", b"x"])
def test_a_tiktoken_line_that_cannot_be_read_is_named(tmp_path, capfd, rank):
    (tmp_path / "x.tiktoken").write_bytes(b"IQ== 0\nIQ== " + rank + b"\n")
    assert "x.tiktoken:2" in refused(str(tmp_path / "x.tiktoken"), capfd)


@pytest.mark.parametrize(
    "tail",
    [
        b"\xff" * 1_000_000,  # an integer without end
        b"\x0a\x03\x0a\x01a" * 2,  # a piece twice
        b"\x0a\x85\x20\x0a\x82\x20" + b"a" * 4098,  # a piece of 4098 bytes
        b"\x1a\x06\x12\x04\xff\xff\xff\xff",  # a table of characters that points outside
        b"\x0a",
    ],
)
def test_a_damaged_sentencepiece_model_is_refused(tmp_path, capfd, tail):
    (tmp_path / "tokenizer.model").write_bytes(b"\x0a\x0a\x0a\x03abc\x15\0\0\0\0" + tail)
    assert "not a SentencePiece model" in refused(str(tmp_path / "tokenizer.model"), capfd)
