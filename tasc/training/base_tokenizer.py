"""The tokenizer of a small base model: byte-level BPE after Qwen2's pre-tokenizer."""

from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tasc.tokenizer.files import made_up_files
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.patterns import QWEN2

END = "<|endoftext|>"


def train_tokenizer(texts: Sequence[str], size: int) -> LoadedTokenizer:
    """Train a tokenizer of at most ``size`` tokens; id 0 is the end token, also for padding."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()  # as Qwen2 does
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return LoadedTokenizer(tokenizer, "(new tokenizer)", made_up_files(END))
