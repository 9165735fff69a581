"""Time forwards over 1 to 61 tokens, packed and with torch's layers, and compare bits of logits.

T(k) is the time of a step: the forward over a token and k - 1 draft nodes after a context, and the
arg-max of its rows. Layers, dtypes and sizes alternate; each number of threads is a round of its
own. Then random trees, chains and batches are scored, and the logits of a path in each are compared
with those of one token per forward, bit for bit. ``--shapes`` compares only, on random weights in
the shapes of four models, with few layers: so many forwards for each shape and dtype, in
``--most-threads`` processes. ``--heads`` times the certified heads of these shapes, whose states
have outliers, in so many turns with all logits. ``--isa avx2`` holds the packed layers to AVX2,
and ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA and MKL_ENABLE_INSTRUCTIONS torch's. Usage:
python -m benchmarks.forward --model FOLDER [--json FILE]
python -m benchmarks.forward (--shapes 834 | --heads 15) [--json FILE]
"""

import argparse
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from multiprocessing import get_context
from statistics import median, quantiles
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from benchmarks.figures import publish, script, timed
from tasc import _native
from tasc.models.certified_head import CertifiedHead
from tasc.models.load import DecodingDtype, decoding_dtype, load_to_decode
from tasc.models.packed import PackedLinear, native_threads, pack
from tasc.models.target import Target

SIZES = (1, 2, 4, 8, 13, 32, 61)
CONTEXT = 128
DTYPES: tuple[DecodingDtype, ...] = ("float32", "bfloat16")
PACKED: tuple[DecodingDtype, ...] = (*DTYPES, "int8")  # with the activations of "auto"
Way = tuple[str, DecodingDtype]  # layers, dtype
LAYERS = 2
_WIDTHS = "hidden_size", "intermediate_size"
_SIZES = (*_WIDTHS, "num_attention_heads", "num_key_value_heads", "head_dim")
SHAPES: dict[str, tuple[str, int, tuple[int, ...]]] = {  # type, vocabulary, _SIZES
    "SmolLM2-135M": ("llama", 49152, (576, 1536, 9, 3, 64)),
    "Qwen2.5-0.5B": ("qwen2", 151936, (896, 4864, 14, 2, 64)),
    "Llama-3.2-1B": ("llama", 128256, (2048, 8192, 32, 8, 64)),
    "Gemma-3-270M": ("gemma3_text", 262144, (640, 2048, 4, 1, 256)),
}


def main() -> None:
    """Measure and print the figures as JSON."""
    parser = script(
        __doc__, model="smollm2", repeats=15, most_threads=2, forwards=500, shapes=0, heads=0
    )
    parser.add_argument("--isa", default=_native.dense_instructions())
    options = parser.parse_args()
    if not _native.use_dense_instructions(options.isa):
        parser.error(f"this machine has no {options.isa}")
    if options.heads or options.shapes:
        found = heads(options.heads) if options.heads else compare_shapes(options)
        publish({"layers": LAYERS, "heads" if options.heads else "bits": found}, options.json)
        return
    targets = {
        (layers, dtype): Target(
            load_to_decode(options.model, dtype, "cpu", None, packed=layers == "packed")
        )
        for layers, dtypes in (("torch", DTYPES), ("packed", PACKED))
        for dtype in dtypes
    }
    with torch.inference_mode():
        rounds = [
            {"threads": threads, "milliseconds": measure(targets, threads, options)}
            for threads in range(1, options.most_threads + 1)
        ]
        bits = {dtype: compare(targets["packed", dtype], options.forwards) for dtype in PACKED}
    figures = {"model": options.model, "isa": options.isa, "repeats": options.repeats}
    publish({**figures, "context": CONTEXT, "rounds": rounds, "bits": bits}, options.json)


def measure(
    targets: dict[Way, Target], threads: int, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return the times of each way, with their ratios to one token."""
    torch.set_num_threads(threads)
    times: dict[Way, dict[int, list[float]]] = {way: {k: [] for k in SIZES} for way in targets}
    for repeat in range(-2, options.repeats):  # two rounds warm up
        for way, target in targets.items():
            with native_threads(target.model):
                for k, taken in _turn(target):
                    if repeat >= 0:
                        times[way][k].append(taken * 1e3)
    return [_summary(way, found) for way, found in times.items()]


def _turn(target: Target) -> Iterator[tuple[int, float]]:
    tokens, chain = target.any_tokens(CONTEXT + SIZES[-1]), np.arange(-1, SIZES[-1], dtype=np.int32)
    target.prefill(tokens[:CONTEXT], SIZES[-1])
    for k in SIZES:
        begin = time.perf_counter()
        target.score([1], [(tokens[: k - 1], chain[: k - 1])]).max(-1)
        yield k, time.perf_counter() - begin


def _summary(way: Way, times: dict[int, list[float]]) -> dict[str, Any]:
    medians = {k: median(taken) for k, taken in times.items()}
    return {
        "layers": way[0],
        "dtype": way[1],
        "median": medians,
        "quartiles": {k: quantiles(taken)[::2] for k, taken in times.items()},
        "of_one_token": {k: taken / medians[1] for k, taken in medians.items()},
    }


@torch.inference_mode()
def heads(repeats: int) -> list[dict[str, Any]]:
    """Return the milliseconds of all logits of 1 to 61 states, and of their largest 1 and 8."""
    torch.set_num_threads(1)
    found: list[dict[str, Any]] = []
    for (_, rows, (width, *_)), dtype in product(SHAPES.values(), DTYPES):
        linear = nn.Linear(width, rows, bias=False).requires_grad_(False)
        linear.weight.normal_()
        head = CertifiedHead(PackedLinear(linear.to(getattr(torch, dtype))))
        for count in (1, 13, 61):
            states = torch.randn(count, width) * (1 + 14 * (torch.arange(width) % 97 == 0))
            states = states.to(linear.weight.dtype)
            ways = {k: partial(head.largest, states, k) for k in (1, 8)}
            ways[0] = partial(head.linear, states)
            turns = [{k: timed(way)[0] for k, way in ways.items()} for _ in range(repeats + 1)]
            row: dict[str, Any] = {"rows": rows, "width": width, "dtype": dtype, "states": count}
            for name, of in (("least", min), ("median", median)):
                each = {k: of(turn[k] * 1e3 for turn in turns[1:]) for k in ways}
                row[name] = each | {f"{k}_of_all": each[k] / each[0] for k in (1, 8)}
            found.append(row)
    return found


def compare_shapes(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Compare the bits of many forwards of each shape and dtype, with random weights."""
    ways = [(*way, options.shapes) for way in product(SHAPES, PACKED)]
    with get_context("fork").Pool(options.most_threads, torch.set_num_threads, (1,)) as pool:
        return pool.starmap(_compare_shape, ways, chunksize=1)


@torch.inference_mode()
def _compare_shape(name: str, dtype: DecodingDtype, forwards: int) -> dict[str, Any]:
    kind, vocabulary, sizes = SHAPES[name]
    shape = dict(zip(_SIZES, sizes, strict=True))
    config = AutoConfig.for_model(
        kind, vocab_size=vocabulary, num_hidden_layers=LAYERS, tie_word_embeddings=True, **shape
    )
    torch.manual_seed(0)
    whole = getattr(torch, decoding_dtype(dtype, "cpu"))
    model = AutoModelForCausalLM.from_config(config, dtype=whole)
    pack(model, int8=dtype == "int8")
    return {"shape": name, "dtype": dtype, **compare(Target(model), forwards)}


def compare(target: Target, forwards: int) -> dict[str, int]:
    """Score random trees in batches; count the rows whose bits differ from a forward of one."""
    rng, counts = np.random.default_rng(0), {"forwards": forwards, "rows": 0, "different": 0}
    some = target.any_tokens(400)
    for number in range(forwards):
        size, nodes = (1, 1, 4)[number % 3], int(rng.integers(1, 61))
        prompts = [rng.choice(some, rng.integers(2, 40)) for _ in range(size)]
        chain = number % 3 == 0
        parents = [i - 1 if chain else rng.integers(-1, i) if i else -1 for i in range(nodes)]
        trees = [(rng.choice(some, nodes), np.array(parents, np.int32)) for _ in range(size)]
        target.begin(CONTEXT + nodes, size)
        target.join(prompts)
        scored = target.score([int(some[0])] * size, trees)
        row, path = int(rng.integers(size)), [nodes - 1]
        while parents[path[-1]] >= 0:
            path.append(int(parents[path[-1]]))
        target.prefill(prompts[row], nodes + 1)
        for token, i in [(int(some[0]), -1), *((int(trees[row][0][i]), i) for i in path[::-1])][:6]:
            alone = target.score([token], [(some[:0], np.zeros(0, np.int32))])[0, 0]
            target.keep([[]])
            counts["rows"] += 1
            counts["different"] += not torch.equal(alone, scored[row, i + 1])
    return counts


if __name__ == "__main__":
    main()
