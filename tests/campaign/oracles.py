"""Cases with an answer that is known otherwise: greedy and sampled outputs.

Each runs in a process of its own, which prints what was tried, or fails with what is wrong.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from tests.campaign.process import fork, prepare, wait

SEQUENCES = 20_000
FALSE_ALARM = 1e-6
_LIMIT_S = 600.0
_NEW_TOKENS = 40
# Methods that draft in texts or with heads need another of each: the tests hold them to the same.
_NEED_MORE = ("draft", "head", "either")


def lossless(rng: Random) -> str:
    """Greedy output is that of transformers' own generate, whatever drafts, at any batch size."""
    from transformers import AutoTokenizer

    import tasc
    from tasc.decoding.drafters import DRAFTERS
    from tests.decoding.test_lossless import VARIANTS
    from tests.pico import ARCHITECTURES, build_model, continued, make_tokenizer

    free = [
        v for name, vs in VARIANTS.items() if DRAFTERS[name].needs not in _NEED_MORE for v in vs
    ]
    architecture, method = rng.choice(ARCHITECTURES), rng.choice(free)
    batch = rng.choice([1, 2, 4, 5])
    model = build_model(architecture, seed=rng.randrange(10**6), tied=rng.random() < 0.5)
    draws = np.random.default_rng(rng.randrange(10**9))
    prompts = [draws.integers(1, 320, rng.randint(1, 60)) for _ in range(6)]
    expected = [continued(model, prompt, _NEW_TOKENS) for prompt in prompts]
    corpus = [tokens.tolist() for e in expected for tokens in (e, draws.permutation(e))]
    tokenizer = AutoTokenizer.from_pretrained(make_tokenizer(Path("tokenizer")))
    done = tasc.generate(
        *(model, tokenizer, [prompt.tolist() for prompt in prompts], method, corpus),
        max_new_tokens=_NEW_TOKENS,
        batch_size=batch,
    )
    tried = f"{architecture} {method} batch={batch}"
    for i, (ours, theirs) in enumerate(zip(done, expected, strict=True)):
        assert ours.tokens.tolist() == theirs.tolist(), f"{tried}, prompt {i}"
    return tried


def formats(rng: Random) -> str:
    """Chats are read from files of each format as they were made, without excluded answers."""
    from tasc.data.corpus import load
    from tasc.data.source import Source
    from tests.data.random_chats import FORMATS, chats, expected

    seed, count = rng.randrange(10**9), rng.choice((1, 20, 300))
    rows = chats(count, seed)
    known = [one for row in rows for one in expected(row)]
    for name, write in FORMATS.items():
        write(rows, Path(name))
        turns = [example.turn for example in load(Source(f"./{name}"), "train").examples]
        found = [([*turn.before, turn.answer], turn.tools) for turn in turns if turn]
        assert found == known, f"{count} chats of {seed} in {name}"
    return f"{count} chats of {seed} in {len(FORMATS)} formats"


def documents(rng: Random) -> str:
    """JSON in every way that json.dumps writes it is accepted, or refused with the reason."""
    from tests.schema.test_documents import tried

    ends = [tried(rng.randrange(10**9)) for _ in range(20)]
    return str(dict(sum(ends[1:], ends[0])))


def tables(rng: Random) -> str:
    """CSV in any dialect is read as by Python's module csv."""
    from tests.data.test_csv import same_as_csv
    from tests.tables import SEPARATORS

    for _ in range(100):
        same_as_csv(rng, rng.choice(SEPARATORS), Path.cwd())
    return "100 tables"


def sampled() -> list[tuple[str, str, str]]:
    """Return every (drafter, verifier, setting) whose distribution can be enumerated."""
    from tests.decoding import test_hetero_loop, test_sampling

    pairs = [(kind, rule) for rule, kind in test_sampling.PAIRS] + test_hetero_loop.PAIRS
    return [(*pair, setting) for pair in pairs for setting in test_sampling.SETTINGS]


def sampling(case: tuple[str, str, str], _: Random) -> str:
    """Sequences of three tokens have the target's distribution, top-k and top-p included."""
    from tasc.decoding.verify import verifier
    from tests.decoding import test_hetero_loop, test_sampling
    from tests.decoding.table import TableTarget, chance, exact_distribution, sample

    kind, rule, setting = case
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
    ended = wait(fork(partial(_print, oracle, rng), sandbox), _LIMIT_S)
    if ended.code == 0:
        return ended.out.strip(), []
    said = ended.err.strip()[-300:] or f"signal {ended.signal}"
    return "", ["hang" if ended.hung else said]


def _print(oracle: Callable[[Random], str], rng: Random) -> int:
    print(oracle(rng))  # noqa: T201 - the parent reads it
    return 0
