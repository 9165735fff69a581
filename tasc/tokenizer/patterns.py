"""The regular expressions of pre-tokens in published byte-level tokenizers."""

from tokenizers import Regex, pre_tokenizers

_CASED = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = _SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _TAIL
QWEN2 = _SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _TAIL
_WORD = f"{_CASED}*{_LOWER}+{_SHORT}?|{_CASED}+{_LOWER}*{_SHORT}?"
O200K = _WORD + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _TAIL

# By llama.cpp's name; each pattern splits the pieces of the one before it.
_DIGITS = (r"\p{N}", GPT2)
PRE_TOKENIZERS = {
    "qwen2": (QWEN2,),
    "llama-bpe": (CL100K,),
    "gpt-2": (GPT2,),
    "smollm": _DIGITS,
    "gpt-4o": (O200K,),
    "default": (r"[\p{P}$+<=>^~|`]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    "deepseek-r1-qwen": (QWEN2,),
    **dict.fromkeys(("llama3", "llama-v3", "falcon3", "smaug-bpe"), (CL100K,)),
    **dict.fromkeys(("starcoder", "refact", "minerva-7b"), _DIGITS),
    "llama4": (O200K,),
}
COMPOSING = {"qwen2", "deepseek-r1-qwen"}  # text is normalized to Unicode NFC
WHOLE = {"llama-bpe", "llama3", "llama-v3", "falcon3"}  # a pre-token that is a token is not merged


def byte_level(*patterns: str) -> pre_tokenizers.PreTokenizer:
    """Return a pre-tokenizer that splits by each pattern in turn and spells bytes as letters."""
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*splits, letters])
