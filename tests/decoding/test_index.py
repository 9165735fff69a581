"""Saved indexes: read back, shared, and refused in one line where they do not fit."""

import struct

import numpy as np
import pytest

from tasc._native import NgramIndex
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.ngram.index import (
    FILE,
    HEADER,
    build_index,
    indexed_outputs,
    load_index,
    save_index,
)
from tasc.decoding.drafters.ngram.options import Counts
from tasc.decoding.drafters.ngram.tasc_spec import TascSpec, TascSpecOptions
from tasc.errors import InputError, IntegrityError
from tasc.tokenizer.loaded import load_tokenizer
from tests.decoding.scripted import ints, paths
from tests.pico import make_tokenizer

TEXTS = ["play some jazz", "play some rock", "wake me up at nine"]


@pytest.fixture
def outputs(tokenizer):
    return tokenizer.encode(TEXTS).split()


def save(outputs, tokenizer, folder):
    """Save an index of ``outputs`` in a new folder, and return the folder."""
    folder.mkdir()
    save_index(build_index(outputs, tokenizer.eos_id, Counts()), tokenizer, folder)
    return folder


@pytest.fixture
def saved(tmp_path, tokenizer, outputs):
    return save(outputs, tokenizer, tmp_path / "index")


def test_a_saved_index_drafts_as_the_one_it_was_made_from(saved, tokenizer, outputs):
    index = load_index(saved, tokenizer)
    assert index.check_integrity() is None
    method = parse("tasc-spec:min_probability=0")
    fresh = method.prepare(Resources(outputs, tokenizer.eos_id))
    mapped = method.prepare(Resources([], tokenizer.eos_id, indexes=[index]))
    for text in TEXTS:
        prompt = tokenizer.encode([text]).tokens
        drafts = []
        for factory in (fresh, mapped):
            drafter = factory()
            drafter.start(prompt)
            drafter.observe(prompt[:1])
            drafts.append(paths(drafter.draft(20)))
        assert drafts[0] == drafts[1]


def test_several_corpora_are_drafted_from_together(tmp_path, saved, tokenizer):
    words = tokenizer.encode(["turn the lights off"]).tokens
    other = save([words], tokenizer, tmp_path / "other")
    indexes = [load_index(folder, tokenizer) for folder in (saved, other)]
    resources = Resources([], tokenizer.eos_id, indexes=indexes)
    drafter = parse("corpus:min_probability=0").prepare(resources)()
    drafter.start(words[:0])
    drafted = paths(drafter.draft(30))
    assert {tuple(o[:1]) for o in (words, *tokenizer.encode(TEXTS).split())} <= {*drafted}


def test_counting_otherwise_than_the_index_is_refused(saved, tokenizer):
    index = load_index(saved, tokenizer)
    with pytest.raises(InputError, match="p_min=5"):
        parse("tasc-spec-paper").prepare(Resources([], tokenizer.eos_id, indexes=[index]))


def test_foreign_truncated_and_damaged_files_are_refused(tmp_path, saved, tokenizer):
    path = saved / FILE
    whole = path.read_bytes()
    with pytest.raises(InputError, match="holds no index"):
        load_index(tmp_path, tokenizer)
    other = load_tokenizer(str(make_tokenizer(tmp_path / "two", ["something else"] * 9, size=300)))
    with pytest.raises(InputError, match="another tokenizer"):
        load_index(saved, other)
    version = struct.pack("<I", 99)
    for content, error, word in (
        (b"", InputError, "not an index"),
        (b"PK\x03\x04" + whole, InputError, "not an index"),
        (whole[:50], IntegrityError, "truncated"),
        (whole[:-8], IntegrityError, "bytes"),
        (whole + b"12345678", IntegrityError, "bytes"),
        (whole[:8] + version + whole[12:], InputError, "format 99.*tasc index --tokenizer"),
        (whole[:-8] + bytes(8), IntegrityError, "the lists fill the entries"),
        (whole[: HEADER.size] + bytes(len(whole) - HEADER.size), IntegrityError, "header"),
    ):
        path.write_bytes(content)
        with pytest.raises(error, match=word) as caught:
            load_index(saved, tokenizer)
        assert "\n" not in str(caught.value)


def forge(path, word, value):
    whole, at = bytearray(path.read_bytes()), HEADER.size + 8 * word
    whole[at : at + 8] = np.uint64(value).tobytes()
    path.write_bytes(whole)


def test_an_index_forged_to_read_elsewhere_is_refused_or_found_by_a_look_at_all_of_it(
    saved, tokenizer, outputs
):
    index = build_index(outputs, tokenizer.eos_id, Counts())
    text, entries = 8, 8 + (3 * index.tokens + 8) // 8
    contexts = entries + index.entries
    assert contexts + index.contexts + 1 == len(index.block)
    for word, value, said in (
        (2, 1 << 40, "impossible header"),
        (5, 0x7FF8000000000000, "strength must be"),
        (7, 0x000FFFFE_00000001, "tokens that its tokenizer lacks"),
        (contexts, 1, "the lists fill the entries"),
    ):
        save_index(index, tokenizer, saved)
        forge(saved / FILE, word, value)
        with pytest.raises(IntegrityError, match=said) as caught:
            load_index(saved, tokenizer)
        assert str(caught.value).endswith("make it again with tasc index")
    for word, value, said in (
        (contexts + 1, 0xFFFFFFFF, "the lists of contexts follow each other"),
        (contexts + 1, 0x03FFFFFF_00000001, "a shorter context precedes"),
        (entries, 0xFFFFFFFF_0004FFFF, "continuations are of the vocabulary"),
        (entries, 0x7FFFFFFF_00000001, "leads to a context"),
        (text, 0x12345_FFFFF, "the text's tokens"),
    ):
        save_index(index, tokenizer, saved)
        forge(saved / FILE, word, value)
        opened = load_index(saved, tokenizer)
        assert said in str(opened.check_integrity())
        with pytest.raises(IntegrityError, match="make it again with tasc index"):
            indexed_outputs(opened)


def test_whatever_a_forged_index_says_drafts_name_tokens_of_the_vocabulary(saved, tokenizer):
    random = np.random.default_rng(1)
    size = len(tokenizer.vocabulary())
    whole = (saved / FILE).read_bytes()
    block = np.frombuffer(whole, np.uint64, offset=HEADER.size)
    for _ in range(200):
        (saved / FILE).write_bytes(whole)
        word = int(random.integers(len(block)))
        forge(saved / FILE, word, block[word] ^ np.uint64(1 << int(random.integers(64))))
        try:
            index = load_index(saved, tokenizer)
        except IntegrityError:
            continue
        options = TascSpecOptions(min_probability=0, n_max=index.n_max)
        drafter = TascSpec([index], tokenizer.eos_id, options)
        drafter.start(tokenizer.encode(["play some"]).tokens)
        assert all(0 <= token < size for token in drafter.draft(30).tokens)


@pytest.mark.parametrize("contexts", [7, 8, 40])
def test_a_forged_index_of_contexts_longer_than_n_max_is_followed_no_further(contexts):
    header = struct.pack("<QQQqddiiii", contexts, 0, 0, 1, 0.8, 1.0, 6, 0, 1, 1)
    nodes = [struct.pack("<II", 0, i > 1) for i in range(contexts + 1)]  # each precedes the next
    index = NgramIndex(np.frombuffer(b"".join([header, bytes(8), *nodes]), np.uint64))
    assert index.contexts == contexts
    # the empty one and one a length
    said = None if contexts <= 7 else "no context is longer than n_max"
    assert index.check_integrity() == said
    drafter = TascSpec([index], 0, TascSpecOptions())
    drafter.start(np.arange(9, dtype=np.int32))
    assert drafter.draft(30).tokens.max(initial=0) < 9


def test_token_ids_that_do_not_fit_are_refused():
    for outputs, message in (([ints(1 << 20)], "token ids below"), ([], "no outputs")):
        with pytest.raises(InputError, match=message):
            build_index(outputs, 0, Counts())
