"""Random settings of generation_config.json for a vocabulary of 320 tokens."""

from collections.abc import Callable
from random import Random
from typing import Any

VOCABULARY = 320


def _token(rng: Random) -> int:
    return rng.randrange(1, VOCABULARY)


def _tokens(rng: Random, most: int) -> list[int]:
    return sorted({_token(rng) for _ in range(rng.randrange(1, most))})


def _words(rng: Random) -> list[list[int]]:
    return [[_token(rng) for _ in range(rng.randrange(1, 3))] for _ in range(rng.randrange(1, 9))]


_VALUES: dict[str, Callable[[Random], Any]] = {
    "repetition_penalty": lambda rng: rng.choice([0.8, 1, 1.0, 1.05, 1.3, 5.0]),
    "no_repeat_ngram_size": lambda rng: rng.choice([0, 1, 2, 3, 30]),
    "encoder_repetition_penalty": lambda rng: rng.choice([0.5, 1.0, 50.0]),
    "encoder_no_repeat_ngram_size": lambda rng: rng.choice([0, 1, 2]),
    "bad_words_ids": _words,
    "sequence_bias": lambda rng: [[word, rng.uniform(-9, 9)] for word in _words(rng)],
    "suppress_tokens": lambda rng: _tokens(rng, 200),
    "begin_suppress_tokens": lambda rng: _tokens(rng, 200),
    "forced_bos_token_id": _token,
    "forced_eos_token_id": lambda rng: rng.choice([_token(rng), _tokens(rng, 3)]),
    "min_length": lambda rng: rng.choice([0, 1, 25, 60]),
    "min_new_tokens": lambda rng: rng.choice([0, 1, 9, 50]),
    "exponential_decay_length_penalty": lambda rng: [rng.randrange(9), rng.choice([1.01, 1.5])],
    "remove_invalid_values": lambda rng: rng.random() < 0.5,
    "renormalize_logits": lambda rng: rng.random() < 0.5,
    "eos_token_id": lambda rng: rng.choice([0, _token(rng), [0, *_tokens(rng, 60)]]),
    "do_sample": lambda rng: rng.random() < 0.5,
    "temperature": lambda rng: rng.choice([0.6, 1.0]),
    "top_k": lambda rng: rng.choice([1, 20, 50]),
    "top_p": lambda rng: rng.choice([0.8, 1.0]),
    "max_length": lambda rng: rng.choice([20, 4096]),
    "max_new_tokens": lambda rng: rng.choice([2, 2048]),
}


def generation_settings(rng: Random) -> dict[str, Any]:
    """Return a few settings that ``generate`` accepts, some of them without an effect."""
    names = rng.sample(list(_VALUES), rng.randrange(1, 6))
    return {name: _VALUES[name](rng) for name in names}
