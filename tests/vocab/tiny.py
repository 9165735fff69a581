"""Small tokenizers and corpora for the tests of this folder."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tasc.data.corpus import Corpus, Example
from tasc.data.source import Source
from tasc.tokenizer.loaded import LoadedTokenizer

END = "<|end|>"
TOOL = "<tool>"  # an added token that is not special
PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
TEXTS = [
    "intent: play_music, slot fills: {artist_name: the beatles, year: 1969}",
    "intent: play_music, slot fills: {artist_name: the house in the house}",
    "intent: play_radio, slot fills: {}\n\nWe've got 'therapy' in the house.",
    "intent: set_alarm, slot fills: {time: 7:30, date: tomorrow}  \n- it's naïve, naïve!",
    "intent: set_alarm, slot fills: {time: 12:30, date: today}\n日本語 🙂🙂 日本語",
    "new therapy, old therapy",
]


def tokenizer(kind: str = "qwen2", size: int = 330) -> LoadedTokenizer:
    """A byte-level BPE tokenizer whose added tokens come after the model's vocabulary."""
    made = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "bytelevel")
    made.pre_tokenizer = byte_level
    if kind != "bytelevel":
        split = pre_tokenizers.Split(Regex(PATTERNS[kind]), "isolated")
        made.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    made.add_special_tokens([END])
    made.add_tokens([AddedToken(TOOL, normalized=False)])
    config = b'{"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|end|>"}'
    return LoadedTokenizer(made, kind, {"tokenizer_config.json": config})


def corpus(texts: list[str]) -> Corpus:
    """A training split with these outputs."""
    examples = tuple(Example("in", text, "in\n") for text in texts)
    return Corpus(Source("tiny.jsonl"), "train", examples, "0" * 64)
