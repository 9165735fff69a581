"""From outputs to an augmented tokenizer."""

import json
import re
from typing import Any

import pytest

from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.errors import InputError, IntegrityError
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.vocab.augment import augment
from tasc.vocab.exports.export import Export
from tasc.vocab.exports.merges import TokenizerChange, read_merges
from tests.options import AugmentOptions
from tests.vocab.families import augmented, base_of
from tests.vocab.tiny import OUTPUTS, TEXTS, added, tokenizer

EXPORTS: list[Export] = ["pretoken", "added"]
LABELS = ["kind: late parcel", "kind: lost parcel"]


@pytest.mark.parametrize("export", EXPORTS)
def test_ids_and_base_ids_spell_the_string(export):
    base = tokenizer()
    made = added(base=base, new_tokens=20, export=export)
    strings = base.vocabulary()
    assert made.report.base_size == len(strings)
    assert made.to_dict()["size"] == len(strings) + 20
    for token in made.tokens:
        assert b"".join(strings[i] for i in token.ids) == token.string.encode()
        assert b"".join(strings[i] for i in token.base_ids) == token.string.encode()
        assert max(token.base_ids) < made.report.base_size
        assert token.reward == token.frequency * (len(token.ids) - 1)
        strings.append(token.string.encode())


def test_a_token_that_longer_ones_swallowed_costs_no_budget():
    # " fills: {" and the like always stand inside a longer n-gram.
    made = added(new_tokens=12)
    assert made.report.intermediate_merges > 0
    assert any(len(token.ids) > 4 for token in made.tokens)


@pytest.mark.parametrize("export", EXPORTS)
def test_the_report_is_what_the_saved_folder_does(tmp_path, export):
    held_out = OUTPUTS[::7] + TEXTS
    made = added(OUTPUTS, held_out, new_tokens=12, export=export)
    made.save(tmp_path)
    saved = load_tokenizer(str(tmp_path))
    for part, texts in ((made.report.train, OUTPUTS), (made.report.held_out, held_out)):
        assert part.tokens["reached"] == len(saved.encode(texts).tokens)
        assert part.tokens["before"] == len(tokenizer().encode(texts).tokens)
        assert part.bytes == sum(len(text.encode()) for text in texts)
        assert part.outputs == len(texts)
        assert part.tokens["predicted"] == pytest.approx(part.tokens["reached"], rel=0.1)
    assert made.report.train.tokens["reached"] < made.report.train.tokens["before"] / 2
    assert read_merges(tmp_path) == TokenizerChange(made.tokens)
    entries = json.loads((tmp_path / "merges.json").read_text())["merges"]
    names = {"ids", "new_id", "string", "frequency", "reward", "pcs", "base_ids"}
    assert all(set(entry) == names for entry in entries)


def test_pretoken_changes_no_base_token_and_added_does():
    base = tokenizer("gpt2", size=500)
    assert len(base.encode([" in therapy"]).tokens) == 2
    texts, changed = [" in the"] * 3, {}
    for export in EXPORTS:
        made = added(texts, [" in therapy"], base=base, new_tokens=1, pcs=2.0, export=export)
        assert made.tokens[0].string == " in the"
        changed[export] = made.report.changed
    assert changed == {"pretoken": 0, "added": 1}


def test_identical_outputs_are_counted_not_repeated():
    once, thrice = added(new_tokens=8), added(OUTPUTS * 3, new_tokens=8)
    assert [t.string for t in thrice.tokens] == [t.string for t in once.tokens]
    assert [t.frequency for t in thrice.tokens] == [3 * t.frequency for t in once.tokens]
    assert thrice.report.train.tokens["reached"] == 3 * once.report.train.tokens["reached"]


@pytest.mark.parametrize("texts", [OUTPUTS[:6], [*OUTPUTS[:6], *LABELS]])
def test_a_budget_beyond_the_candidates_names_the_largest_that_works(texts):
    with pytest.raises(InputError, match=r"tiny.jsonl: 900 new tokens are more than the ") as e:
        added(texts, new_tokens=900)
    largest = int(re.search(r"--new-tokens (\d+) or auto$", str(e.value))[1])
    assert 0 < len(added(texts, new_tokens=largest).tokens) <= largest
    with pytest.raises(InputError, match="are more than"):
        added(texts, new_tokens=largest + 1)
    with pytest.raises(InputError, match=r"more than the 0 n-grams .* use more outputs"):
        added(["x"])


@pytest.mark.parametrize("budget", [2, 5, 500, "auto"])
@pytest.mark.parametrize("held_out", [(), LABELS[1:]])
def test_few_outputs_become_a_token_each(budget, held_out):
    for rare in ([], ["Q"]):
        made = added([*LABELS * 9, *rare], held_out, new_tokens=budget)
        assert {token.string for token in made.tokens} == set(LABELS)
        once = len(tokenizer().encode(rare).tokens) if rare else 0
        assert made.report.train.tokens["reached"] == len(LABELS * 9) + once
        few = budget in (5, 500)  # 2, the recommended size, is as many as there are labels
        told = f"{budget} requested, 2 added: with these, no other n-gram recurs"
        assert (made.report.shortfall or "")[: len(told)] == (told if few else "")


def test_few_outputs_stay_in_pieces_that_others_are_made_of():
    pairs = [("therapy", "music"), ("music", "alarm"), ("alarm", "therapy"), ("radio", "alarm")]
    seen, unseen = [f"{a} and {b}" for a, b in pairs], [f"{b} and {a}" for a, b in pairs]
    for budget in (4, 6):
        whole = added(seen * 9, new_tokens=budget)
        assert {token.string for token in whole.tokens} == set(seen)
        report = added(seen * 9, unseen, new_tokens=budget).report
        assert report.held_out.tokens["reached"] < report.held_out.tokens["before"] / 2
    assert report.curve.points[-1].held_out_steps < report.curve.points[0].held_out_steps


def test_strings_an_export_cannot_carry_are_passed_over_and_counted():
    base = tokenizer("gpt2", size=256)
    texts = ["naïve", "naïve", "日本", "日本", "日x本"]
    options: dict[str, Any] = {"base": base, "new_tokens": 1, "pcs": 2.0, "n_max": 8}
    paper, safe = (added(texts, **options, export=export) for export in ("added", "pretoken"))
    assert paper.report.excluded["byte_alphabet"] > 0
    assert "naïve" not in {token.string for token in paper.tokens}
    assert safe.report.excluded["byte_alphabet"] == 0
    cut = added(["\u65e5\u6700"] * 2 + ["\u65e6"] * 9, base=base, new_tokens=1)
    assert cut.report.excluded["not_utf8"] > 0
    digits = added(base=tokenizer("falcon"), new_tokens=20).report
    assert digits.excluded["split_again"] > 0
    assert digits.train.tokens["predicted"] == digits.train.tokens["reached"]


def test_no_ngram_repeats_an_added_token():
    first = augmented(base_of("bpe-first"), "added")
    again = augmented(LoadedTokenizer(first.tokenizer, "t", first.files), "added")
    assert again.tokenizer.get_vocab_size() > first.tokenizer.get_vocab_size()


def test_no_ngram_holds_an_added_token():
    texts = ["a<tool>b c<|end|>"] * 5 + ["x y z"] * 5
    made = added(texts, new_tokens=2, pcs=2.0, export="added")
    assert all("<tool>" not in token.string for token in made.tokens)


@pytest.mark.parametrize("export", EXPORTS)
def test_no_new_token_holds_a_protected_text(export):
    options: dict[str, Any] = {"new_tokens": 500, "pcs": 2.0, "export": export, "min_gain": 1e-9}
    free, made = added(**options), added(**options, protect=("{", "s:"))
    for text in ("{", "s:"):
        assert any(text in token.string for token in free.tokens)
        assert not any(text in token.string for token in made.tokens)
    assert made.tokens
    assert made.report.excluded["protected"] > 0


def test_the_search_ends_where_a_token_gains_too_little():
    tokens = len(tokenizer().encode(OUTPUTS).tokens)
    few, many = (added(new_tokens=500, min_gain=gain) for gain in (0.02, 0.005))
    assert 0 < len(few.tokens) < len(many.tokens) < 500
    told = f"500 requested, {len(few.tokens)} added: no other token saves 0.02 of the tokens"
    assert few.to_dict()["shortfall"] == told
    assert all(len(t.ids) > 4 or t.reward >= 0.02 * tokens for t in few.tokens)
    with pytest.raises(InputError, match=r"saves 0\.9 of the tokens: use a lower --min-gain"):
        added(min_gain=0.9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"new_tokens": 0}, "new_tokens: got 0, give a number from 1 to 1,000,000,000 or auto"),
        ({"n_max": 1}, "n_max: input should be greater than or equal to 2, got 1"),
        ({"pcs": 0.0}, "pcs: input should be greater than 0, got 0.0"),
        ({"pcs": float("nan")}, "pcs: input should be a finite number, got nan"),
        ({"min_gain": 1.0}, "min_gain: input should be less than 1, got 1.0"),
        ({"protect": ("",)}, "protect.0: string should have at least 1 character, got ''"),
        ({"export": "other"}, "export: input should be 'pretoken' or 'added', got 'other'"),
    ],
)
def test_options_are_checked_where_they_are_made(options, message):
    with pytest.raises(InputError, match=message):
        AugmentOptions(**options)


def test_merges_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(InputError, match=r"has no merges.json"):
        read_merges(tmp_path)
    for broken in ("[]", '{"merges": [{"ids": [1]}]}', "{", '{"merges": 3}'):
        (tmp_path / "merges.json").write_text(broken)
        with pytest.raises(IntegrityError, match=r"merges.json is not a list of merges"):
            read_merges(tmp_path)


@pytest.mark.parametrize("name", ["gpt2", pytest.param("qwen2", marks=pytest.mark.slow)])
def test_real_outputs_reach_what_the_search_predicts(data_dir, real_tokenizer, name):
    source = Source(str(data_dir / "massive-en"))
    base = real_tokenizer(name)
    train, held_out = load(source, "train", limit=4000), load(source, "validation", limit=1000)
    made = augment(train, base, AugmentOptions(new_tokens=250), held_out.outputs)
    assert (len(made.tokens), made.report.unused, made.report.changed) == (250, 0, 0)
    for part in (made.report.train, made.report.held_out):
        assert part.tokens["before"] / part.tokens["reached"] > 3.5
        assert part.tokens["predicted"] == pytest.approx(part.tokens["reached"], rel=0.02)


def test_real_outputs_in_the_added_export(data_dir, real_tokenizer):
    base = real_tokenizer("gpt2")
    train = load(Source(str(data_dir / "eur-lex")), "train", limit=5000)
    made = augment(train, base, AugmentOptions(new_tokens=300, export="added"))
    assert (len(made.tokens), made.report.unused) == (300, 0)
    assert made.report.train.tokens["before"] / made.report.train.tokens["reached"] > 1.8
