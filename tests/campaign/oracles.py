"""Cases with an answer that is known otherwise: round trips, greedy and sampled outputs.

Each runs in a process of its own and writes what is wrong to its standard output.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import torch
from transformers import PreTrainedModel

from tests.campaign.process import Faults, fork, prepare, wait

SEQUENCES = 20_000
FALSE_ALARM = 1e-6
_LIMIT_S = 600.0
_NEW_TOKENS = 40


def round_trips(rng: Random) -> str:
    """Random text comes back from an augmented tokenizer wherever it does from its base."""
    from tests.vocab import test_round_trips as distribution

    kind, export = (
        rng.choice([*distribution.BYTE_LEVEL, *distribution.KINDS]),
        rng.choice(["pretoken", "added"]),
    )
    distribution.check(kind, export, distribution.strings(2000, rng.randrange(10**9)))
    return f"{kind} {export}"


def lossless(rng: Random) -> str:
    """Greedy output is that of transformers' own generate, whatever drafts, at any batch size."""
    from transformers import AutoTokenizer

    import tasc
    from tasc.decoding.drafters import DRAFTERS
    from tests.decoding.test_lossless import VARIANTS
    from tests.pico import ARCHITECTURES, build_model, make_tokenizer

    free = [
        v for name, vs in VARIANTS.items() if DRAFTERS[name].needs not in _NEED_MORE for v in vs
    ]
    architecture, method = rng.choice(ARCHITECTURES), rng.choice(free)
    batch = rng.choice([1, 2, 4, 5])
    model = build_model(architecture, seed=rng.randrange(10**6), tied=rng.random() < 0.5)
    draws = np.random.default_rng(rng.randrange(10**9))
    prompts = [draws.integers(1, 320, rng.randint(1, 60)).tolist() for _ in range(6)]
    expected = [_greedy(model, prompt) for prompt in prompts]
    corpus = [*expected, *([*draws.permutation(e).tolist()] for e in expected)]
    tokenizer = AutoTokenizer.from_pretrained(make_tokenizer(Path("tokenizer")))
    done = tasc.generate(
        model, tokenizer, prompts, method, corpus, max_new_tokens=_NEW_TOKENS, batch_size=batch
    )
    for i, (ours, theirs) in enumerate(zip(done, expected, strict=True)):
        assert ours.tokens.tolist() == theirs, f"{architecture} {method} batch {batch}, prompt {i}"
    return f"{architecture} {method} batch={batch}"


# Methods that draft in texts or with heads need another of each: the tests hold them to the same.
_NEED_MORE = ("draft", "head", "either")


def _greedy(model: PreTrainedModel, prompt: list[int]) -> list[int]:
    ids = torch.tensor([prompt])
    out = model.generate(ids, max_new_tokens=_NEW_TOKENS, do_sample=False, pad_token_id=0)
    tokens: list[int] = out[0, len(prompt) :].tolist()
    return tokens


def sampled() -> list[tuple[str, str, str]]:
    """Return every (drafter, verifier, setting) whose distribution can be enumerated."""
    from tests.decoding import test_hetero_loop, test_sampling

    pairs = [(kind, rule) for rule, kind in test_sampling.PAIRS] + test_hetero_loop.PAIRS
    return [(*pair, setting) for pair in pairs for setting in test_sampling.SETTINGS]


def sampling(rng: Random, case: tuple[str, str, str] | None = None) -> str:
    """Sequences of three tokens have the target's distribution, top-k and top-p included."""
    from tasc.decoding.verify import verifier
    from tests.decoding import test_hetero_loop, test_sampling
    from tests.decoding.table import TableTarget, chance, exact_distribution, sample

    kind, rule, setting = case or rng.choice(sampled())
    settings = test_sampling.SETTINGS[setting]
    hetero = kind in test_hetero_loop.MAKE
    drafter = test_hetero_loop.drafter(kind, settings) if hetero else test_sampling.drafter(kind)
    counts = sample(TableTarget(), drafter, verifier(rule, settings), SEQUENCES)
    expected = exact_distribution(TableTarget(), settings.distribution)
    distance = np.abs(counts / counts.sum() - expected).sum() / 2
    probability = chance(counts, expected)
    assert probability > FALSE_ALARM, f"{kind} {rule} {setting}: p = {probability:.1e}"
    return f"{kind}, {rule}, {setting}: total variation {distance:.4f}, p = {probability:.3f}"


def play(oracle: Callable[[Random], str], rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Run one case in a process of its own; return what was tried, and what was wrong."""
    prepare(sandbox)
    ended = wait(fork(partial(_say, oracle, rng), sandbox, Faults()), _LIMIT_S)
    if ended.code == 0:
        return ended.out.strip(), []
    said = ended.out.strip() or ended.err.strip() or f"signal {ended.signal}"
    return oracle_name(oracle), ["hang" if ended.hung else said[-300:]]


def oracle_name(oracle: Callable[[Random], str]) -> str:
    """Return the name of an oracle, also of one with arguments."""
    return str(getattr(oracle, "func", oracle).__name__)


def _say(oracle: Callable[[Random], str], rng: Random) -> int:
    try:
        sys.stdout.write(oracle(rng) + "\n")
    except AssertionError as error:
        sys.stdout.write(f"{error}\n")
        return 3
    return 0


ORACLES = {"round_trips": round_trips, "lossless": lossless, "sampling": sampling}
