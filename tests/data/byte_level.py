"""A small byte-level tokenizer."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = (
    "the cat and the dog in the house, the theory of the thing",
    "intent: alarm_set, slot fills: {time: nine am, date: friday}",
    "naïve café über 日本語 😀 tab\tand\nline",
)
SAMPLES = (
    " in the house",
    "naïve 😀😀 x",
    "a<|endoftext|>b the",
    "  two  spaces\n\nx",
    "日本語 テキスト é",
    "",
    "12345 don't",
)


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def strings_of(loaded, text):
    vocabulary = loaded.vocabulary()
    return [vocabulary[token] for token in loaded.encode([text]).tokens]
