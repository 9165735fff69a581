"""Tokenizers without the tokens that a task does not use."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import Metaspace, Sequence, WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.vocab.exports.merges import read_merges
from tasc.vocab.trim import Trimmed, trim
from tests.options import AugmentOptions
from tests.vocab.families import base_of
from tests.vocab.marked import KINDS, marked
from tests.vocab.test_round_trips import BYTE_LEVEL, TEXT
from tests.vocab.tiny import END, TEXTS, TOOL, added, tokenizer

TASK = TEXTS[2:4]


def decoded(tokenizer: LoadedTokenizer, texts: list[str]) -> list[str]:
    return tokenizer.decode_batch(tokenizer.encode(texts).split())


def least(base: LoadedTokenizer, texts: list[str] = TASK) -> Trimmed:
    with pytest.raises(InputError, match=r"use --rows \d+ or more") as raised:
        trim(base, texts, 1)
    return trim(base, texts, int(str(raised.value).split()[-3]))


@pytest.mark.parametrize("kind", [*BYTE_LEVEL, *KINDS])
def test_the_task_keeps_its_tokens_in_order_and_other_texts_their_text(kind):
    base = base_of(kind)
    made = least(base)
    strings, kept = base.vocabulary(), np.array(made.kept)
    assert list(made.kept) == sorted(made.kept)
    assert made.tokenizer.vocabulary() == [strings[old] for old in made.kept] != strings
    assert np.array_equal(kept[made.tokenizer.encode(TASK).tokens], base.encode(TASK).tokens)
    assert made.kept[made.tokenizer.eos_id] == base.eos_id
    assert {made.kept[i] for i in made.tokenizer.special_ids} == base.special_ids
    assert TOOL not in made.tokenizer.tokenizer.get_vocab()  # added, not special, not used
    assert base.tokenizer.token_to_id(TOOL) in least(base, [*TASK, TOOL]).kept
    texts = [text for text in TEXT if TOOL not in text]  # dropped: it is text like any other
    assert decoded(made.tokenizer, texts) == decoded(base, texts)


@pytest.mark.parametrize("name", ["gpt2", "llama2", "llama3", "mistral-v3", "qwen2"])
def test_published_tokenizers_give_every_text_back(real_tokenizer, name):
    base = real_tokenizer(name)
    made = trim(base, TASK, 1500)
    assert len(made.kept) <= 1500
    assert decoded(made.tokenizer, TEXT) == decoded(base, TEXT)


@pytest.mark.parametrize("kind", ["qwen2", "bpe-gemma", "unigram-first"])
def test_the_rows_left_are_filled_with_the_most_frequent_tokens(kind):
    base = base_of(kind)
    few = least(base)
    more = trim(base, TASK, len(few.kept) + 9)
    assert set(few.kept) < set(more.kept)
    assert len(few.kept) < len(more.kept) <= len(few.kept) + 9
    assert trim(base, TASK).kept == tuple(range(len(base.vocabulary())))


def test_special_tokens_beyond_the_rows_of_the_model_go():
    base = tokenizer()
    end = base.tokenizer.token_to_id(END)
    assert end in trim(base, TASK, model_rows=end + 1).kept
    base.tokenizer.add_special_tokens(["<image>"])
    image = base.tokenizer.token_to_id("<image>")
    assert image not in trim(replace(base), TASK, model_rows=image).kept


@pytest.mark.parametrize("token", [END, TOOL])  # special, and not
def test_token_ids_of_a_template_follow(token):
    base = tokenizer()
    old = base.tokenizer.token_to_id(token)
    base.tokenizer.post_processor = TemplateProcessing(f"{token} $A", None, [(token, old)])
    made = least(base).tokenizer.tokenizer
    assert made.encode("a").ids[0] == made.token_to_id(token) < old


def test_spaces_stay_though_no_text_of_the_task_has_one():
    assert decoded(least(base_of("bpe-never"), ["yes", "no"]).tokenizer, ["a b"]) == ["a b"]


def test_other_kinds_are_refused():
    state = json.loads(tokenizer().tokenizer.to_str())
    state["model"]["end_of_word_suffix"] = "</w>"
    with pytest.raises(InputError, match="this tokenizer is BPE with marks of words: leave --trim"):
        trim(LoadedTokenizer(Tokenizer.from_str(json.dumps(state)), "t"), TASK)


def test_a_tokenizer_that_takes_no_new_tokens_is_trimmed_still():
    odd = marked("bpe-always")
    odd.tokenizer.pre_tokenizer = Sequence([WhitespaceSplit(), Metaspace()])  # as XGLM's
    with pytest.raises(InputError, match="no new tokens if that is refused"):
        added(TASK, base=odd, new_tokens=1)
    assert added(TASK, base=odd, trim=True).kept == trim(odd, TASK).kept


@pytest.mark.parametrize("new_tokens", [0, 2])
def test_new_tokens_take_the_place_of_dropped_ones(tmp_path, new_tokens):
    texts = [*TASK * 3, *TEXTS[-2:] * 2]
    made = added(texts, TEXTS, trim=True, rows=325, new_tokens=new_tokens)
    made.save(tmp_path)
    change, saved = read_merges(tmp_path), load_tokenizer(str(tmp_path))
    assert change.kept is not None
    size = len(change.kept)
    assert [token.new_id for token in change.merges] == list(range(size, size + new_tokens))
    assert len(saved.vocabulary()) == made.report.size == size + new_tokens
    told = made.report.trim
    assert told is not None
    assert (told.kept, told.changed, told.before) == (size, 0, len(tokenizer().vocabulary()))
    assert told.bytes_per_token["after"] <= told.bytes_per_token["before"]
    assert decoded(saved, TEXTS) == TEXTS


def test_trim_alone_adds_no_token_and_rows_need_it():
    assert AugmentOptions().wanted == 500
    assert AugmentOptions(trim=True).wanted == 0
    assert AugmentOptions(**{"trim": True, "budget": 7}).wanted == 7
    assert AugmentOptions(trim=True).makes == {"tokenizer", "new tokens", "model"}
    with pytest.raises(InputError, match="rows has no effect without trim"):
        AugmentOptions(rows=3)
