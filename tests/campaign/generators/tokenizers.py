"""Commands on a tokenizer folder that a stranger broke."""

import copy
import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from tests.campaign.mutate import ODD, damage, dumps, mutate_bytes, mutate_json
from tests.campaign.seeds import Seeds

REGEXES = (
    "",
    "(",
    "(a+)+$",
    "a*",
    "(?=a)",
    ".*?",
    r"\p{L}+",
    "(?:a|aa)+x",
    r"\G",
    "[^",
    "(?<!a+)b",
)
PARTS: dict[str, list[Any]] = {
    "normalizer": [
        *(normalizers.Prepend("▁"), normalizers.Prepend(""), normalizers.Strip()),
        *(normalizers.Lowercase(), normalizers.Sequence([]), normalizers.ByteLevel()),
        {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8="},
    ],
    "pre_tokenizer": [
        *(pre_tokenizers.Metaspace(), pre_tokenizers.FixedLength(0), pre_tokenizers.Digits(True)),
        *(pre_tokenizers.Sequence([]), pre_tokenizers.ByteLevel(), pre_tokenizers.UnicodeScripts()),
    ],
    "decoder": [
        *(decoders.Strip("a", 10**6, 10**6), decoders.CTC("", ""), decoders.WordPiece("")),
        *(decoders.Replace(Regex(""), "b"), decoders.ByteFallback(), decoders.Sequence([])),
    ],
    "truncation": [
        {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 5}
    ],
    "post_processor": [
        *(processors.ByteLevel(), processors.BertProcessing(("x", 2**31), ("y", 2**31))),
        {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}},
    ],
    "model": [
        models.Unigram([("a", -1.0), (" ", -2.0)]),
        models.Unigram([("", 0.0)], 0),
        models.WordLevel({"wake": 0}, "x"),
        models.WordPiece({"x": 0, "wake": 1, "##é": 2}, unk_token="x", max_input_chars_per_word=3),
    ],
}

State = dict[str, Any]


def _part(rng: random.Random, state: State) -> None:
    name = rng.choice(list(PARTS))
    part = rng.choice(PARTS[name])
    state[name] = part if isinstance(part, dict) else json.loads(part.__getstate__())


def _regex(rng: random.Random, state: State) -> None:
    pattern = {rng.choice(["Regex", "Regex", "String"]): rng.choice(REGEXES)}
    if rng.random() < 0.5:
        state["normalizer"] = {"type": "Replace", "pattern": pattern, "content": rng.choice("ab ")}
        return
    behavior = rng.choice(["Isolated", "Removed", "MergedWithNext", "Contiguous"])
    invert = rng.random() < 0.5
    split = {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
    state["pre_tokenizer"]["pretokenizers"][0] = split


def _model(rng: random.Random, state: State) -> None:
    names = ["dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "merges"]
    names += ["fuse_unk", "byte_fallback", "ignore_merges", "vocab", "type"]
    state["model"][rng.choice(names)] = copy.deepcopy(rng.choice(ODD))


def _vocabulary(rng: random.Random, state: State) -> None:
    vocabulary = state["model"]["vocab"]
    for _ in range(rng.randrange(1, 4)):
        text = rng.choice([*list(vocabulary)[:50], "", "new", "Ġ", "日本"])
        vocabulary[text] = rng.choice([0, 5, 321, 5000, 10**5, 2**31, 2**32 - 1, 2**32, -1])
    if rng.random() < 0.3:
        state["model"]["merges"].append(rng.choice([["a", "b"], ["q", "q"], ["", ""], "a b", [1]]))


def _added(rng: random.Random, state: State) -> None:
    base = state["added_tokens"][0]
    flags = {name: rng.random() < 0.5 for name in ("lstrip", "rstrip", "normalized", "special")}
    content = rng.choice(["", " ", "a", "wake me", "<x>", base["content"], "\0", "e", "▁"])
    token = rng.choice([0, 1, 5, 320, 321, 400, 2**22, 2**32 - 1, 2**32, -1])
    state["added_tokens"].append(base | flags | {"content": content, "id": token})


CHANGES: tuple[Callable[[random.Random, State], None], ...]
CHANGES = (_part, _regex, _model, _vocabulary, _added)


def _state(rng: random.Random, path: Path) -> None:
    state = json.loads(path.read_text())
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if rng.random() < 0.4:
            state = mutate_json(rng, state)
        else:
            # An earlier change may have taken away what this one would change.
            with suppress(KeyError, IndexError, TypeError, AttributeError):
                rng.choice(CHANGES)(rng, state)
    path.write_text(dumps(state))


def _sentencepiece(rng: random.Random, folder: Path) -> str:
    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    names = ["<unk>", "<s>", "</s>", "▁", "a", "▁a", "e", "n", "t"]
    kinds = [2, 3, 3, *[1] * 6]
    data = b"".join(
        field(1, field(1, name.encode()) + b"\x15\0\0\x80\xbf\x18" + bytes([kind]))
        for name, kind in zip(names, kinds, strict=True)
    )
    data += field(2, b"\x18" + bytes([rng.choice([1, 2, 3])]))
    for _ in range(rng.randrange(4)):
        data = mutate_bytes(rng, data)
    path = folder / "tokenizer.model"
    path.write_bytes(data)
    return str(path)


def _broken(rng: random.Random, folder: Path) -> str:
    """Break a tokenizer folder; returns the path to give."""
    kind = rng.random()
    if kind < 0.1:
        return _sentencepiece(rng, folder)
    if kind < 0.6:
        _state(rng, folder / "tokenizer.json")
        return str(folder)
    path = folder / rng.choice(["tokenizer.json", "tokenizer_config.json"])
    if kind > 0.95:
        path = folder / rng.choice(["special_tokens_map.json", "chat_template.jinja"])
        path.write_text('{"eos_token": {"content": "<|endoftext|>", "lstrip": false}}')
    damage(rng, path)
    return str(folder)


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[object]:
    """Copy a tokenizer, break it, and return a command that reads it."""
    folder, task = sandbox / "tokenizer", seeds.task
    shutil.copytree(seeds.tokenizer, folder)
    broken = _broken(rng, folder)
    augment = ["augment", task, "--tokenizer", broken, "--budget", "5"]
    return rng.choice(
        [
            ["analyze", task, "--tokenizer", broken],
            augment,
            [*augment, "--export", "added"],
            ["index", task, "--tokenizer", broken],
            ["vocab", broken, seeds.tokenizer, "--data", task],
            ["vocab", seeds.tokenizer, broken, "--data", task],
        ]
    )
