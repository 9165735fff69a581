"""Random Unicode through both exports of every kind of tokenizer.

TASC_ROUND_TRIPS=100000 makes it that many strings (``make round-trips``).
"""

import os
import random
from typing import Any

import pytest

from tasc.errors import InputError
from tasc.vocab.augment import augment
from tests.options import AugmentOptions
from tests.vocab.marked import KINDS, marked
from tests.vocab.tiny import PATTERNS, SEQUENCES, TEXTS, corpus, tokenizer

COUNT = int(os.environ.get("TASC_ROUND_TRIPS", "2000"))
BYTE_LEVEL = ["bytelevel", *PATTERNS, *SEQUENCES]
PLANES = [
    (0x20, 0x7E),
    (0, 0x2FF),
    (0x300, 0x36F),
    (0x370, 0x1FFF),
    (0x2000, 0x2BFF),
    (0x3000, 0x9FFF),
]
PLANES += [(0xAC00, 0xD7A3), (0xE000, 0xFFFD), (0x1F300, 0x1FAFF), (0x10000, 0x10FFFF)]
BLANKS = " \u00a0\u3000\t\n\r"


def strings(count: int, seed: int = 0) -> list[str]:
    """Code points from everywhere, white space, and pieces of the training outputs."""
    rng = random.Random(seed)

    def piece() -> str:
        kind = rng.random()
        if kind < 0.4:
            text = rng.choice(TEXTS)
            begin = rng.randrange(len(text))
            return text[begin : begin + rng.randrange(1, 30)]
        if kind < 0.55:
            return rng.choice(BLANKS) * rng.randrange(1, 4)
        low, high = rng.choice(PLANES)
        return "".join(chr(rng.randint(low, high)) for _ in range(rng.randrange(1, 6)))

    return ["".join(piece() for _ in range(rng.randrange(1, 6))) for _ in range(count)]


TEXT = strings(COUNT)


@pytest.mark.parametrize("export", ["pretoken", "added"])
@pytest.mark.parametrize("kind", [*BYTE_LEVEL, *KINDS])
def test_random_text_survives_wherever_it_survives_the_base_tokenizer(kind, export):
    check(kind, export, TEXT)


def check(kind: str, export: Any, texts: list[str]) -> None:
    """Assert that what the base tokenizer of ``kind`` gives back, the augmented one does, too."""
    base = marked(kind) if kind in KINDS else tokenizer(kind)
    options = AugmentOptions(new_tokens=40, pcs=2.0, export=export, min_gain=1e-9)
    try:
        made = augment(corpus(TEXTS * 3 + [f"so {text}" for text in TEXTS]), base, options)
    except InputError as error:
        assert kind.endswith("always")
        assert "use --export pretoken" in str(error)  # noqa: PT017 - the other kinds do not raise
        return
    before, after = (
        of.decode_batch(
            [entry.ids for entry in of.encode_batch_fast(texts, add_special_tokens=False)],
            skip_special_tokens=False,
        )
        for of in (base.tokenizer, made.tokenizer)
    )
    whole = [position for position, text in enumerate(texts) if before[position] == text]
    assert len(whole) > len(texts) / 20
    if kind in BYTE_LEVEL:
        assert len(whole) == len(texts)
    assert [after[position] for position in whole] == [texts[position] for position in whole]
