"""Commands on a tokenizer folder that a stranger broke."""

from __future__ import annotations

import base64
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.campaign.mutate import no_file, positions

if TYPE_CHECKING:
    from tests.campaign.seeds import Seeds

DEEP = "[" * 50_000 + "]" * 50_000
ODD: list[Any] = [None, True, 0, -1, 2**31, 2**32 - 1, 10**30, 0.5, float("nan"), "", "a", "▁"]
ODD += ["\ud800", "\0", "##", "é", [], [[]], {}, {"a": 1}, ["a", "b"], "x" * 5000]
REGEXES = [
    *("", "(", "(a+)+$", "a*", "(?=a)", ".*?", r"\p{L}+", "(?:a|aa)+x", r"\G", "[^", "(?<!a+)b")
]
PARTS: dict[str, list[dict[str, Any]]] = {
    "normalizer": [
        {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8="},
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Prepend", "prepend": ""},
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Lowercase"},
        {"type": "Sequence", "normalizers": []},
        {"type": "ByteLevel"},
    ],
    "pre_tokenizer": [
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        {"type": "FixedLength", "length": 0},
        {"type": "Digits", "individual_digits": True},
        {"type": "Sequence", "pretokenizers": []},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "UnicodeScripts"},
    ],
    "decoder": [
        {"type": "Strip", "content": "a", "start": 10**6, "stop": 10**6},
        {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True},
        {"type": "WordPiece", "prefix": "", "cleanup": True},
        {"type": "Replace", "pattern": {"Regex": ""}, "content": "b"},
        {"type": "ByteFallback"},
        {"type": "Sequence", "decoders": []},
    ],
    "truncation": [
        {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 5}
    ],
    "post_processor": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "BertProcessing", "sep": ["x", 2**31], "cls": ["y", 2**31]},
        {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}},
    ],
    "model": [
        {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0], [" ", -2.0]]},
        {"type": "Unigram", "unk_id": 0, "vocab": [["", 0.0]]},
        {"type": "WordLevel", "unk_token": "x", "vocab": {"wake": 0}},
        {
            "type": "WordPiece",
            "unk_token": "x",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 3,
            "vocab": {"x": 0, "wake": 1, "##é": 2},
        },
    ],
}

State = dict[str, Any]


def _any(rng: random.Random, state: State) -> None:
    container, key = rng.choice(positions(state))
    if rng.random() < 0.3:
        del container[key]
    else:
        container[key] = rng.choice(ODD)


def _part(rng: random.Random, state: State) -> None:
    name = rng.choice(list(PARTS))
    state[name] = rng.choice(PARTS[name])


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
    state["model"][rng.choice(names)] = rng.choice(ODD)


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


CHANGES: list[Callable[[random.Random, State], None]]
CHANGES = [_any, _any, _any, _part, _regex, _model, _vocabulary, _added]


def _json_file(rng: random.Random, path: Path) -> None:
    state = json.loads(path.read_text())
    if path.name != "tokenizer.json":
        _any(rng, state)
    for _ in range(rng.choice([1, 1, 1, 2, 3]) if path.name == "tokenizer.json" else 0):
        try:
            rng.choice(CHANGES)(rng, state)
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier change took away what this one would change
    path.write_text(json.dumps(state))


def _bytes(rng: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    kind = rng.randrange(6)
    if kind == 0:
        del data[rng.randrange(len(data)) :]
    elif kind == 1:
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    else:
        whole = [b"", b"[]", b"\xff\xfe{}", DEEP.encode(), b"[" + bytes(data) + b"]", b"null"]
        data = bytearray(rng.choice(whole))
    path.write_bytes(data)


def _tiktoken(rng: random.Random, folder: Path) -> str:
    path = folder / "x.tiktoken"
    lines = [base64.b64encode(bytes([n])) + b" %d\n" % n for n in range(256)]
    lines[rng.randrange(256)] = rng.choice([b"", b"\xff\n", b"IQ== x\n", b"IQ== " + b"9" * 5000])
    path.write_bytes(b"".join(lines))
    return str(path)


def _sentencepiece(rng: random.Random, folder: Path) -> str:
    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    names = ["<unk>", "<s>", "</s>", "▁", "a", "▁a", "e", "n", "t"]
    kinds = [2, 3, 3, *[1] * 6]
    data = b"".join(
        field(1, field(1, name.encode()) + b"\x15\0\0\x80\xbf\x18" + bytes([kind]))
        for name, kind in zip(names, kinds, strict=True)
    )
    spoilt = bytearray(data + field(2, b"\x18" + bytes([rng.choice([1, 2, 3])])))
    for _ in range(rng.randrange(4)):
        spoilt[rng.randrange(2, len(spoilt))] = rng.randrange(256)
    if rng.random() < 0.3:
        del spoilt[rng.randrange(4, len(spoilt)) :]
    path = folder / "tokenizer.model"
    path.write_bytes(spoilt)
    return str(path)


def _broken(rng: random.Random, folder: Path) -> str:
    """Break a tokenizer folder; returns the path to give."""
    kind = rng.random()
    if kind < 0.1:
        return rng.choice([_tiktoken, _sentencepiece])(rng, folder)
    path = folder / ("tokenizer.json" if kind < 0.75 else "tokenizer_config.json")
    if kind > 0.95:
        path = folder / rng.choice(["special_tokens_map.json", "chat_template.jinja"])
        path.write_text('{"eos_token": {"content": "<|endoftext|>", "lstrip": false}}')
    how = rng.choices([_json_file, _bytes, no_file], [8, 2, 1])[0]
    how(rng, path)
    return str(folder)


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[str]:
    """Copy a tokenizer, break it, and return a command that reads it."""
    folder = sandbox / "tokenizer"
    shutil.copytree(seeds.tokenizer, folder)
    broken = _broken(rng, folder)
    task = str(seeds.task)
    return rng.choice(
        [
            ["analyze", task, "--tokenizer", broken],
            ["augment", task, "--tokenizer", broken, "--budget", "5"],
            ["augment", task, "--tokenizer", broken, "--budget", "5", "--export", "added"],
            ["index", task, "--tokenizer", broken],
            ["vocab", broken, str(seeds.tokenizer), "--data", task],
            ["vocab", str(seeds.tokenizer), broken, "--data", task],
        ]
    )
