"""Measures the cost model T(k) of a model on a device, once, and caches it."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import isotonic_regression

from tasc.environment import processor
from tasc.errors import InputError
from tasc.models.cost_model import CONTEXT, SUCCESSORS, CostModel
from tasc.models.folder import disk_cache
from tasc.models.layers import is_fused
from tasc.models.packed import is_int8, is_packed, native_threads
from tasc.models.target import Target

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
_FORMAT = 5  # of the cached file; forwards of older versions were slower
_LEAST_TURNS, _MOST_TURNS = 3, 25
_UNSAVED: dict[Path, CostModel] = {}  # of this process, whose cache is in a read-only folder
_AFTER = 4  # forwards that a tree slows down
# Seconds of a forward above which the slow-down is negligible, because the weights exceed the
# caches. Subtracting the forwards after a large one would only multiply their noise.
_SMALL = 0.005


def measure(target: Target, *, seconds: float = 2.0) -> CostModel:
    """Time forwards of ``target`` after CONTEXT tokens, for about ``seconds``.

    Sizes take turns, so that drift affects all alike. Each time is a median over turns and includes
    the arg-max of the rows, or their largest logits from the certified head, as in greedy decoding.
    A tree also slows down the next forwards, whose cache lines it evicts: by a third of a forward
    in total on a model of 1 M parameters. So T(1) is measured over consecutive forwards of one
    token, and T(k) includes the slow-down of the forwards after it. Least squares makes the medians
    monotone. ``target`` loses its sequence. A model of few positions is measured at sizes that fit.
    """
    positions = target.max_positions or CONTEXT + SIZES[-1]
    context = min(CONTEXT, positions - SIZES[-1])
    if context < 1:
        context = positions // 2
    sizes = tuple(size for size in SIZES if context + size <= positions)
    once = _timer(target, context, sizes[-1])
    for size in sizes:  # the first call of a shape may compile or allocate
        once(size)
    after = _AFTER if once(1) < _SMALL else 0
    turns: list[list[float]] = []
    end = time.perf_counter() + seconds
    while len(turns) < _LEAST_TURNS or (len(turns) < _MOST_TURNS and time.perf_counter() < end):
        turns.append([once(size) + sum(once(1) for _ in range(after)) for size in sizes])
    each = tuple(_model(sizes, np.array(turn), after, context) for turn in turns)
    return replace(_model(sizes, np.median(turns, axis=0), after, context), turns=each)


def busy_clock(device: torch.device) -> Callable[[], float]:
    """Return a clock that other work on the machine does not advance, as far as possible.

    On a CPU it counts the processor time of the calling thread, which takes part in every parallel
    routine: on an idle machine that is the time that passes. Elsewhere it is the time that passes.
    """
    return time.thread_time if device.type == "cpu" else time.perf_counter


def token_seconds(target: Target, size: int = 1) -> float:
    """Return the seconds of a forward over ``size`` tokens, by ``busy_clock``.

    It is the fastest of ``_MOST_TURNS`` forwards: work beside them on other cores, which share
    caches and memory, slows some of them down, and speeds none up. ``target`` loses its sequence.
    """
    context = max(1, min(CONTEXT, (target.max_positions or CONTEXT + size) - size))
    once = _timer(target, context, size, busy_clock(target.device))
    once(size)  # the first call may allocate
    with native_threads(target.model):
        return min(once(size) for _ in range(_MOST_TURNS))


def prefill_seconds(target: Target, length: int) -> float:
    """Return the seconds of reading a prompt of ``length`` tokens, by ``busy_clock``.

    It is the fastest of three. ``target`` loses its sequence.
    """
    length = min(length, (target.max_positions or length + 1) - 1)
    tokens, clock = target.any_tokens(length), busy_clock(target.device)
    seconds = []
    with native_threads(target.model):
        for _ in range(4):
            begin = clock()
            target.prefill(tokens, 1).max(-1).indices.cpu()
            seconds.append(clock() - begin)
    return min(seconds[1:])  # the first call may allocate


def _timer(
    target: Target, context: int, largest: int, clock: Callable[[], float] = time.perf_counter
) -> Callable[[int], float]:
    """Read ``context`` tokens; return a function from a size up to ``largest`` to its seconds."""
    tokens = target.any_tokens(context + largest)
    head = target.head
    target.prefill(tokens[:context], largest)
    chain = np.arange(-1, largest, dtype=np.int32)

    def once(size: int) -> float:
        forward = partial(target.score, [1], [(tokens[: size - 1], chain[: size - 1])])
        begin = clock()
        if head is None:
            forward()[0].max(-1).indices.cpu()  # argmax is slower in bfloat16
        else:
            head.top(forward, [size], SUCCESSORS)
        return clock() - begin

    return once


def _model(
    sizes: tuple[int, ...], together: npt.NDArray[np.float64], after: int, context: int
) -> CostModel:
    """Return T(k) of the seconds of a forward of each size and ``after`` more of one token."""
    alone = together[0] / (1 + after)
    monotone = isotonic_regression(np.maximum(together - after * alone, alone)).x
    return CostModel(sizes, tuple(monotone.tolist()), context)


def measured_cost(target: Target, *, fresh: bool = False) -> CostModel:
    """Return the cost model of ``target`` from the user's cache, or measure and cache it.

    ``fresh`` measures again: times of a loaded machine do not apply to an idle one. An unreadable
    file is measured again; with a read-only folder, each process measures once.
    """
    identity = _identity(target)
    path = disk_cache.entry("cost", identity)
    cost = None if fresh else _read(path) or _UNSAVED.get(path)
    if cost is None:
        with native_threads(target.model):
            cost = measure(target)
        entry = {"sizes": cost.sizes, "seconds": cost.seconds, "context": cost.context}
        disk_cache.write(path, entry, identity)
        if not path.exists():
            _UNSAVED[path] = cost
    return cost


def _identity(target: Target) -> dict[str, Any]:
    cuda = target.device.type == "cuda"
    return {
        "format": _FORMAT,
        "config": disk_cache.config_hash(target.model.config),
        "dtype": str(next(target.model.parameters()).dtype),
        "device": torch.cuda.get_device_name(target.device) if cuda else processor(),
        "threads": torch.get_num_threads(),
        "context": CONTEXT,
        "graphs": target.graphs,
        "compiled": target.compiled,
        "packed": is_packed(target.model),
        "int8": is_int8(target.model),
        "fused": is_fused(target.model),
    }


def _read(path: Path) -> CostModel | None:
    entry = disk_cache.read(path) or {}
    try:
        sizes, seconds = map(int, entry["sizes"]), map(float, entry["seconds"])
        return CostModel(tuple(sizes), tuple(seconds), int(entry["context"]))
    except (ValueError, KeyError, TypeError, InputError):
        return None
