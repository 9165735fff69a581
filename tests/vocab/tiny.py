"""Small tokenizers and corpora for the tests of this folder."""

import json
from collections.abc import Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from tasc.data.corpus import Corpus, Example
from tasc.data.source import Source
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.patterns import CL100K, GPT2, O200K, QWEN2
from tasc.vocab.augment import Augmentation, augment
from tests.options import AugmentOptions

END = "<|end|>"
TOOL = "<tool>"  # an added token that is not special
_CASED = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_SMALL = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PATTERNS = {
    "qwen3.5": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tekken": rf"[^\r\n\p{{L}}\p{{N}}]?{_CASED}*{_SMALL}+|[^\r\n\p{{L}}\p{{N}}]?{_CASED}+{_SMALL}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "gpt2": GPT2,
    "qwen2": QWEN2,
    "llama3": CL100K,
    "o200k": O200K,
}
DIGITS = {"type": "Digits", "individual_digits": True}
BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}


def split(pattern: str) -> dict[str, Any]:
    """A Split of tokenizer.json that keeps what the pattern matches as a piece."""
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


# Pre-tokenizers that are a sequence: SmolLM2, StarCoder2 and Granite; Phi-4; Falcon, which splits
# digits after bytes became characters, and so within some characters; DeepSeek-V3.
SEQUENCES: dict[str, list[dict[str, Any]]] = {
    "falcon": [
        {"type": "Punctuation", "behavior": "Contiguous"},
        BYTE_LEVEL,
        DIGITS | {"individual_digits": False},
        split("[0-9][0-9][0-9]"),
    ],
    "digits": [DIGITS, BYTE_LEVEL],
    "inverted": [
        split(PATTERNS["llama3"]) | {"behavior": "Removed", "invert": True},
        BYTE_LEVEL | {"use_regex": False},
    ],
    "deepseek": [
        split(r"\p{N}{1,3}"),
        split("[一-龥\u3040-ゟ゠-ヿ]+"),
        split(
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        BYTE_LEVEL | {"use_regex": False},
    ],
}
TEXTS = [
    "intent: play_music, slot fills: {artist_name: the beatles, year: 1969}",
    "intent: play_music, slot fills: {artist_name: the house in the house}",
    "intent: play_radio, slot fills: {}\n\nWe've got 'therapy' in the house.",
    "intent: set_alarm, slot fills: {time: 7:30, date: tomorrow}  \n- it's naïve, naïve!",
    "intent: set_alarm, slot fills: {time: 12:30, date: today}\n日本語 🙂🙂 日本語",
    "new therapy, old therapy",
]


def outputs(count: int) -> list[str]:
    """``count`` outputs, with colours and sizes, of each of three intents."""
    words = ["red", "green", "blue", "old", "new", "tall"]
    return [
        f"intent: {verb}, slot fills: {{colour: {words[k % 6]}, size: {k}}}"
        for verb in ("paint_wall", "buy_paint", "mix_paint_well")
        for k in range(count)
    ]


OUTPUTS = outputs(24)


def sequence(steps: list[dict[str, Any]]) -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer that a tokenizer.json describes by these steps."""
    state = json.loads(Tokenizer(models.BPE()).to_str())
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    if len(steps) == 1:
        state["pre_tokenizer"] = steps[0]
    return Tokenizer.from_str(json.dumps(state)).pre_tokenizer


def tokenizer(kind: str = "qwen2", size: int = 330) -> LoadedTokenizer:
    """A byte-level BPE tokenizer whose added tokens come after the model's vocabulary."""
    made = Tokenizer(models.BPE())
    steps = SEQUENCES.get(kind, [BYTE_LEVEL])
    if kind in PATTERNS:
        steps = [split(PATTERNS[kind]), BYTE_LEVEL | {"use_regex": False}]
    made.pre_tokenizer = sequence(steps)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    made.add_special_tokens([END])
    made.add_tokens([AddedToken(TOOL, normalized=False)])
    config = b'{"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|end|>"}'
    return LoadedTokenizer(made, kind, {"tokenizer_config.json": config})


def corpus(texts: Sequence[str]) -> Corpus:
    examples = tuple(Example("in", text, "in\n") for text in texts)
    return Corpus(Source("tiny.jsonl"), "train", examples, "0" * 64)


def added(
    texts: Sequence[str] = OUTPUTS,
    held_out: Sequence[str] = (),
    *,
    base: LoadedTokenizer | None = None,
    **options: Any,
) -> Augmentation:
    """Add tokens of ``texts`` to ``base``, by default the small tokenizer."""
    return augment(corpus(texts), base or tokenizer(), AugmentOptions(**options), held_out)
