"""A small tokenizer and corpora for the tests of this layer."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tasc.data.corpus import Corpus, Example
from tasc.data.source import Source
from tasc.tokenizer.loaded import LoadedTokenizer


@pytest.fixture(scope="session")
def tokenizer():
    """Byte-level BPE whose tokens are single bytes and a few pairs."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["intent slot play music alarm set time date genre"], trainer)
    return LoadedTokenizer(made, "small")


@pytest.fixture
def make_corpus():
    """Build a corpus of (input, output) pairs."""

    def make(rows):
        examples = tuple(Example(text, output, text + "\n") for text, output in rows)
        return Corpus(Source("made.jsonl"), "train", examples, "0" * 64)

    return make
