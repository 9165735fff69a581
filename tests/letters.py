"""A task of letters, and models that do it by construction: each letter has one that follows it."""

from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tests.pico import bigrams, build_bigram, make_tokenizer
from tests.recipes import write

OUTPUTS = {"1": "ABCDEFGH", "2": "JKLMNOPQ", "3": "RSTUVWXY"}  # by the digit that ends a prompt
TEMPLATE = ("--template", "{input}")
_UNHEARD = -30.0  # the logit of a token that is never sampled


def write_letters(folder: Path) -> Path:
    """Write the splits of the task; one reference in four of the test split is wrong."""
    rows = [{"input": f"say {digit}", "output": text} for digit, text in OUTPUTS.items()]
    write(folder / "train.jsonl", rows * 8)
    write(folder / "validation.jsonl", rows)
    wrong = [row | {"output": "Z"} if i % 4 == 3 else row for i, row in enumerate(rows * 4)]
    write(folder / "test.jsonl", wrong)
    return folder


def build_writer(
    tokenizer: LoadedTokenizer, sure: float = 20.0, *, ends: bool = True
) -> PreTrainedModel:
    """Return a model that writes the right outputs.

    Only letters and the end are ever sampled, so a text is tokenized as it was written. With
    ``sure`` at 5 and temperature 0.9, an eighth of the tokens are others than the likeliest. A
    model that never ``ends`` writes its output again and again.
    """
    written = [tokenizer.encode([d + text]).tokens.tolist() for d, text in OUTPUTS.items()]
    logits = bigrams([[*ids, 0 if ends else ids[1]] for ids in written], sure=sure)
    heard = {token for ids in written for token in ids[1:]} | ({0} if ends else set())
    unheard = np.ones(len(logits), bool)
    unheard[sorted(heard)] = False
    logits[:, unheard] = _UNHEARD
    return build_bigram(logits)


def make_writer(folder: Path, sure: float = 20.0, *, ends: bool = True) -> Path:
    """Save a model as of ``build_writer`` and its tokenizer."""
    tokenizer = load_tokenizer(str(make_tokenizer(folder)))
    build_writer(tokenizer, sure, ends=ends).save_pretrained(folder)
    return folder
