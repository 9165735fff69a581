"""Random models with new tokens, to export to llama.cpp."""

from pathlib import Path

from tokenizers import Tokenizer, pre_tokenizers

import tasc
from tasc.vocab.exports.export import save
from tests.pico import make_model, make_tokenizer
from tests.vocab.marked import KINDS, marked

VOCABULARY = 344
DIGITS = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]


def augmented(
    folder: Path, task: Path, kind: str, architecture: str = "qwen2", *, tokens: str = ""
) -> Path:
    size, base = VOCABULARY, folder / "base"
    if tokens in KINDS:
        size, spaced = 600, marked(tokens)
        base.mkdir()
        save(spaced.tokenizer, spaced.files, base)
    else:
        file = make_tokenizer(base, size=300) / "tokenizer.json"
        plain = Tokenizer.from_file(str(file))
        if tokens == "digits":  # as SmolLM2's, which splits them first
            plain.pre_tokenizer = pre_tokenizers.Sequence(DIGITS)
        plain.save(str(file))
    options = {"source": str(task), "tokenizer": str(base), "budget": 24, "export": kind}
    made = tasc.augment(tasc.AugmentOptions(**options))
    make_model(folder / "model", architecture, vocabulary=size)
    made.save(folder / "model")
    return folder / "model"
