"""What a forward costs by its number of tokens: T(k), measured once for a model on a device.

A step scores the last token and k - 1 draft nodes in one forward. While the device waits for the
weights rather than for arithmetic, T(k) hardly rises; where it begins to, a larger tree no longer
pays. That point differs between devices, so it is measured and not assumed.
"""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import isotonic_regression

from tasc.environment import processor
from tasc.errors import InputError
from tasc.models.folder import disk_cache
from tasc.models.target import Target

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
CONTEXT = 128
_FORMAT = 2  # of the cached file
_ROUNDS = 3, 25  # at least, at most
_AFTER = 4  # forwards that a tree slows down
_SMALL = 0.02  # seconds of a forward, above which that does not count


@dataclass(frozen=True)
class CostCurve:
    """T(k): ``seconds[i]`` of one forward over ``sizes[i]`` tokens after ``context`` others.

    ``turns`` has the curve as each turn of the measurement alone would have it; they differ where
    the machine had other work. A curve from the cache has none.
    """

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    context: int = CONTEXT
    turns: tuple["CostCurve", ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what is not a curve: sizes rise from 1, seconds are positive and do not fall."""
        rising = self.sizes[:1] == (1,) and all(np.diff(self.sizes) > 0)
        if not rising or len(self.seconds) != len(self.sizes):
            raise InputError(
                f"a cost curve has one time for each of some sizes that rise from 1, got "
                f"{len(self.seconds)} times for sizes {self.sizes}"
            )
        times = np.array(self.seconds)
        if not (np.isfinite(times).all() and times[0] > 0 and (np.diff(times) >= 0).all()):
            raise InputError(
                f"the times of a cost curve are positive and do not fall, got {self.seconds}"
            )

    def at(self, tokens: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the seconds of forwards over ``tokens`` (any shape) ≥ 1 tokens each.

        Linear between the measured sizes, and beyond the last as between the last two.
        """
        k = np.asarray(tokens, np.float64)
        inside = np.interp(k, self.sizes, self.seconds)
        if len(self.sizes) == 1:
            return inside
        slope = (self.seconds[-1] - self.seconds[-2]) / (self.sizes[-1] - self.sizes[-2])
        return inside + np.maximum(k - self.sizes[-1], 0) * slope


def measure(target: Target, *, context: int = CONTEXT, seconds: float = 2.0) -> CostCurve:
    """Time forwards of ``target`` after ``context`` tokens, for about ``seconds``.

    Sizes take turns, so that drift hits all alike; each time is a median over the turns, at least
    three, and the arg-max of the rows is part of it, as a step cannot go on without. A tree also
    slows down the forwards after it, whose caches it took: on a model of 1 M parameters by a third
    of a forward in all. So T(1) is that of forwards of one token in a row, and T(k) bears what the
    next ones took beyond it. Medians are made monotone by least squares. A sequence that ``target``
    was decoding is lost.

    Raises:
        InputError: the model has no room for the largest size after one token.
    """
    if target.max_positions:
        context = min(context, target.max_positions - SIZES[-1])
    if context < 1:
        raise InputError(
            f"a cost curve needs a model of more than {SIZES[-1]} positions, got "
            f"{target.max_positions}: give a fixed budget instead"
        )
    tokens = target.any_tokens(context + SIZES[-1])
    target.prefill(tokens[:context], SIZES[-1])
    chain = np.arange(-1, SIZES[-1], dtype=np.int32)

    def once(size: int) -> float:
        begin = time.perf_counter()
        target.score([1], [(tokens[: size - 1], chain[: size - 1])])[0].argmax(-1).cpu()
        return time.perf_counter() - begin

    for size in SIZES:  # the first call of a shape may compile or allocate
        once(size)
    after = _AFTER if once(1) < _SMALL else 0
    least, most = _ROUNDS
    turns: list[list[float]] = []
    end = time.perf_counter() + seconds
    while len(turns) < least or (len(turns) < most and time.perf_counter() < end):
        turns.append([once(size) + sum(once(1) for _ in range(after)) for size in SIZES])
    each = tuple(_curve(np.array(turn), after, context) for turn in turns)
    return replace(_curve(np.median(turns, axis=0), after, context), turns=each)


def _curve(together: npt.NDArray[np.float64], after: int, context: int) -> CostCurve:
    """Return T(k) of the seconds of a forward of each size and ``after`` more of one token."""
    alone = together[0] / (1 + after)
    monotone = isotonic_regression(np.maximum(together - after * alone, alone)).x
    return CostCurve(SIZES, tuple(monotone.tolist()), context)


def cost_curve(
    target: Target, *, context: int = CONTEXT, folder: Path | None = None, fresh: bool = False
) -> CostCurve:
    """Return T(k) of ``target``, from the user's cache or measured now and cached.

    The cache is ``$XDG_CACHE_HOME/tasc`` or ``folder``; ``fresh`` measures again, as what was
    measured on a busy machine says nothing of a quiet one. A file that cannot be read is measured
    anew, and a folder that cannot be written costs only the caching.
    """
    identity = _identity(target, context)
    path = disk_cache.entry("cost", identity, folder)
    held = None if fresh else _read(path)
    if held is None:
        held = measure(target, context=context)
        kept = {"sizes": held.sizes, "seconds": held.seconds, "context": held.context}
        disk_cache.write(path, kept, identity)
    return held


def _identity(target: Target, context: int) -> dict[str, Any]:
    """What a curve depends on."""
    cuda = target.device.type == "cuda"
    return {
        "format": _FORMAT,
        "config": disk_cache.config_hash(target.model.config),
        "dtype": str(next(target.model.parameters()).dtype),
        "device": torch.cuda.get_device_name(target.device) if cuda else processor(),
        "threads": torch.get_num_threads(),
        "context": context,
        "graphs": target.graphs,
        "compiled": target.compiled,
    }


def _read(path: Path) -> CostCurve | None:
    held = disk_cache.read(path) or {}
    try:
        sizes, seconds = map(int, held["sizes"]), map(float, held["seconds"])
        return CostCurve(tuple(sizes), tuple(seconds), int(held["context"]))
    except (ValueError, KeyError, TypeError, InputError):
        return None
