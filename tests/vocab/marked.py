"""Small tokenizers that mark spaces with "▁"."""

import json
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer, UnigramTrainer
from transformers.convert_slow_tokenizer import generate_merges

from tasc.tokenizer.loaded import LoadedTokenizer
from tests.vocab.tiny import END, TEXTS, TOOL

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
MARK = "▁"
PIECE = rf"{MARK}?(?:\p{{L}}+|\p{{N}}|[^{MARK}\p{{L}}\p{{N}}]+)"
# algorithm, where spaces are marked, whether unknown characters become bytes
KINDS = {
    "bpe-normalizer": ("bpe", "normalizer", True),
    "bpe-first": ("bpe", "first", True),
    "bpe-never": ("bpe", "never", True),
    "bpe-gemma": ("bpe", "gemma", True),  # with a token across words, like Gemma's ">▁</"
    "bpe-always": ("bpe", "always", False),
    "unigram-normalizer": ("unigram", "normalizer", True),
    "unigram-first": ("unigram", "first", True),
    "unigram-always": ("unigram", "always", False),
    "unigram-metaspace": ("unigram", "metaspace", False),  # with a decoder of the same name
}


def marked(kind: str) -> LoadedTokenizer:
    algorithm, where, fallback = KINDS[kind]
    made = _trained(algorithm, fallback=fallback)
    if where == "gemma":
        state = json.loads(made.to_str())
        state["model"]["vocab"][f",{MARK}s"] = len(state["model"]["vocab"])
        state["model"]["merges"].append([",", f"{MARK}s"])  # of the lowest priority
        made = Tokenizer.from_str(json.dumps(state))
        made.normalizer = normalizers.Replace(" ", MARK)
        made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        made.decoder = _decoder(strip=False)
    elif where == "normalizer":
        prepend, replace = normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)
        made.normalizer = normalizers.Sequence([prepend, replace])
        made.pre_tokenizer = None
    else:
        scheme = "first" if where == "metaspace" else where
        split = where == "metaspace"
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    if where == "metaspace":
        made.decoder = decoders.Metaspace(prepend_scheme="first")
    elif where != "gemma":
        made.decoder = _decoder(strip=where != "never")
    made.add_special_tokens([AddedToken(name, normalized=False) for name in ("<unk>", END)])
    made.add_tokens([AddedToken(TOOL, normalized=False)])
    config = f'{{"eos_token": "{END}"}}'.encode()
    return LoadedTokenizer(made, kind, {"tokenizer_config.json": config})


def _trained(algorithm: str, *, fallback: bool) -> Tokenizer:
    letters = Tokenizer(models.Unigram() if algorithm == "unigram" else models.BPE())
    letters.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Split(Regex(PIECE), "isolated")]
    )
    sizes: dict[str, Any] = {"vocab_size": 260, "show_progress": False}
    trainer: Any = BpeTrainer(**sizes, special_tokens=["<unk>"])
    if algorithm == "unigram":
        trainer = UnigramTrainer(**sizes, unk_token="<unk>", special_tokens=["<unk>"])
    letters.train_from_iterator([text.replace("\n", " ") for text in TEXTS], trainer)
    pieces = BYTES if fallback else []
    if algorithm == "unigram":
        scored = json.loads(letters.to_str())["model"]["vocab"]
        entries = [*map(tuple, scored), *((piece, 0.0) for piece in pieces)]
        return Tokenizer(models.Unigram(entries, unk_id=0, byte_fallback=fallback))
    ids = letters.get_vocab()
    names = sorted(ids, key=ids.__getitem__)
    scores = {name: -float(position) for position, name in enumerate(names) if position}
    merges = generate_merges({text: i for i, text in enumerate(scores)}, scores)
    vocabulary = {name: position for position, name in enumerate([*names, *pieces])}
    model = models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=fallback)
    return Tokenizer(model)


def _decoder(*, strip: bool) -> decoders.Decoder:
    parts = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*parts, *([decoders.Strip(" ", 1, 0)] if strip else [])])
