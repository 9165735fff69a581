"""Call ``tasc.generate`` many times: memory stays flat and no thread is left behind.

    python -m tests.campaign.endurance --calls 5000

Exits with 1 where memory has grown by more than 2 % since the warm-up, or threads have become more.
"""

import argparse
import gc
import mmap
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from transformers import AutoTokenizer

import tasc
from tests.pico import build_model, make_tokenizer

DRAFTERS = ("tasc-spec", "prompt", "suffix")
CORPUS = [[5, 6, 7, 8, 9], [5, 6, 20, 21]]
GROWTH = 0.02


class Reading(NamedTuple):
    """What the process holds."""

    resident: int  # bytes
    threads: int


def reading() -> Reading:
    """Read the process' memory and threads from /proc, when garbage has been collected."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Reading(pages * mmap.PAGESIZE, len(list(Path("/proc/self/task").iterdir())))


def endure(
    calls: int, warmup: int, generate: Callable[..., object] = tasc.generate
) -> tuple[Reading, Reading]:
    """Return what the process held after ``warmup`` calls and after ``calls`` more."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = AutoTokenizer.from_pretrained(make_tokenizer(Path(folder)))
    model, rng = build_model(hidden=32), np.random.default_rng(0)
    before = reading()
    for call in range(warmup + calls):
        if call == warmup:
            before = reading()
        prompts = [rng.integers(1, 320, rng.integers(1, 60)).tolist() for _ in range(1 + call % 3)]
        drafter, corpus = DRAFTERS[call % len(DRAFTERS)], CORPUS if call % 2 else None
        limits = {"max_new_tokens": int(rng.integers(1, 12)), "batch_size": 1 + call % 2}
        generate(model, tokenizer, prompts, drafter, corpus, **limits)
    return before, reading()


def verdict(before: Reading, after: Reading) -> tuple[float, bool]:
    """Return by what share memory grew, and whether that and the threads are as they should be."""
    growth = after.resident / before.resident - 1
    return growth, abs(growth) <= GROWTH and after.threads == before.threads


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--warmup", type=int, default=100)
    given = parser.parse_args()
    before, after = endure(given.calls, given.warmup)
    growth, good = verdict(before, after)
    for name, held in (("warm-up", before), (f"{given.calls} calls later", after)):
        sys.stdout.write(f"{name}: {held.resident / 2**20:.1f} MiB, {held.threads} threads\n")
    sys.stdout.write(f"memory {growth:+.2%}, at most ±{GROWTH:.0%}: {'good' if good else 'BAD'}\n")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
