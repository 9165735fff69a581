"""Pairs of tokenizers that do not fit each other: the output is the target's own, or one line.

Targets are byte-level; drafters lose spaces and letter case, know few letters, fall back to bytes,
or share nothing with the target.
"""

from string import ascii_lowercase

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tasc.decoding.core.resources import DraftSource
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.verify import verifier
from tasc.errors import InputError
from tasc.tokenizer.alignment import Encoder
from tasc.tokenizer.loaded import LoadedTokenizer
from tests.decoding.outputs import generate, resources_of
from tests.pico import build_model
from tests.tiers import spread

WORDS = ["wake", "me", "up", "at", "nine", "intent", "play", "some", "jazz", "music", "i", ":"]


def whole_words(*words: str, normalizer: normalizers.Normalizer | None = None) -> Tokenizer:
    """Whole words; all else is unknown; spaces are lost."""
    vocabulary = {w: i for i, w in enumerate(["<unk>", "<end>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<end>"])
    return tokenizer


def word_pieces() -> Tokenizer:
    """As BERT has them: "##" inside words, accents and case lost."""
    pieces = ["[UNK]", "<end>", *WORDS, *ascii_lowercase, *(f"##{c}" for c in "aeinst")]
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(dict.fromkeys(pieces))}))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["<end>"])
    return tokenizer


def byte_fallback(letters: str = "▁aeinotpukm") -> Tokenizer:
    """As Llama 2 has them: "▁" for spaces, bytes for what has no piece."""
    pieces = ["<unk>", "<end>", *(f"<0x{b:02X}>" for b in range(256)), *letters, "▁a", "in", "▁in"]
    vocabulary = {w: i for i, w in enumerate(dict.fromkeys(pieces))}
    merges = [("▁", "a"), ("i", "n"), ("▁", "in")]
    model = models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tokenizer = Tokenizer(model)
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<end>"])
    return tokenizer


KINDS = {
    "lower case": lambda: whole_words(*WORDS, normalizer=normalizers.Lowercase()),
    "word pieces": word_pieces,
    "byte fallback": byte_fallback,
    # Long strings that are no token of the target, and no bytes.
    "nothing shared": lambda: whole_words("wakememe", "漢字漢", "qqqqqqqq"),
}
PROMPTS = ("Wake ME  up, at nine.\n", "é 漢字 😀", "\t", " a")
METHODS = ("slem:confidence=0", "tli:confidence=0", "union:confidence=0", "slrs:confidence=0")


def source(kind: str) -> DraftSource:
    config = b'{"eos_token": "<end>"}'
    tokenizer = LoadedTokenizer(KINDS[kind](), kind, {"tokenizer_config.json": config})
    model = build_model("llama", vocabulary=len(tokenizer.vocabulary()), tied=False, hidden=32)
    return DraftSource(tokenizer, model)


@pytest.fixture(scope="module")
def plain(target, tokenizer):
    """The prompts' tokens, and the target's own output after each."""
    ids = [tokenizer.encode([prompt]).tokens for prompt in PROMPTS]
    return [(prompt, decode(target, tokenizer, None, "ar", prompt)) for prompt in ids]


@spread("kind, text", [*KINDS, "bytes"], METHODS, every=2)
def test_output_is_the_targets_own_with_any_drafter(target, tokenizer, plain, kind, text):
    draft = None if kind == "bytes" else source(kind)
    for ids, expected in plain:
        assert decode(target, tokenizer, draft, text, ids).tolist() == expected.tolist()
        rule = "sampled" if text.startswith("slem") else "rejection"
        sampling = Sampling(1.0, seed=2)  # that it runs; its distribution is tested on toys
        drawn = decode(target, tokenizer, draft, text, ids, sampling, rule)
        assert ((drawn >= 0) & (drawn < 320)).all()


def decode(target, tokenizer, draft, text, prompt, sampling=None, rule="greedy"):
    method = parse(text)
    resources = resources_of(target, tokenizer, [prompt], draft=draft, sampling=sampling)
    verify = verifier(rule, sampling or Sampling())
    request = Request(prompt, method.prepare(resources), verify=verify)
    (made,) = generate_all(target, [request], max_new_tokens=24, end_ids=(0,), budget=method.budget)
    return made.tokens


def test_standard_refuses_two_vocabularies(target, tokenizer):
    resources = resources_of(target, tokenizer, draft=source("byte fallback"))
    with pytest.raises(InputError, match="needs one vocabulary, but the target has 320 tokens"):
        parse("standard").prepare(resources)


def test_without_a_tokenizer_there_is_one_line(target):
    with pytest.raises(InputError, match="needs the target's model and tokenizer"):
        parse("slem").prepare(Resources([], 0, target=target))


@pytest.mark.parametrize("kind", ["byte fallback", "bytes"])
def test_drafts_of_a_corpus_come_true(target, tokenizer, kind):
    """N-grams of the target's own output predict it, over bytes and over any tokenizer's tokens."""
    ids = tokenizer.encode(["play some jazz music\n"]).tokens
    expected = decode(target, tokenizer, None, "ar", ids)
    source_of = DraftSource(source(kind).tokenizer) if kind != "bytes" else None
    for text in ("slem", "slrs"):
        resources = resources_of(target, tokenizer, [expected] * 3, draft=source_of)
        drafter = parse(text).prepare(resources)()
        done = generate(target, drafter, ids, max_new_tokens=24, budget=8)
        assert done.tokens.tolist() == expected.tolist()
        assert sum(done.accepted) > 0


def test_the_word_pieces_really_lose_something():
    for kind in ("lower case", "word pieces"):
        tokenizer = source(kind).tokenizer
        ids = tokenizer.encode(["Wake  me"]).tokens
        assert tokenizer.decode(ids.tolist()) != "Wake  me"


@pytest.mark.parametrize("string", [b" a in", b"a in", b" in"])
def test_ends_count_a_space_that_the_tokenizer_would_put_there_itself(string):
    encoder = Encoder(LoadedTokenizer(byte_fallback(), "pieces"))
    ids, ends = encoder.encode(string)
    said = [encoder.string_of(ids[: k + 1]).removeprefix(b" ") for k in range(len(ids))]
    assert said == [string[:end].removeprefix(b" ") for end in ends]
    assert ends[-1] == len(string)
