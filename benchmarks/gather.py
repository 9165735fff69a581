"""Time MicroSpec's gather relative to a plain copy, and find waits of the host in a step.

The gather copies rows of an LM head into the packed buffer of a window: all rows, as for a prompt,
and a few, as for a step. It is compared with a copy of as many contiguous rows and with
index_select of torch. Every run reads other rows, so that none are cached. The ways alternate. On a
GPU torch's synchronization check raises an error for any wait in a step; matrix products stand in
for the draft head's layer. Usage: python -m benchmarks.gather --device cuda [--json FILE]
"""

import argparse
import itertools
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.figures import publish, script, timed
from tasc.backend import cuda
from tasc.decoding.drafters.heads.draft_vocab import window
from tasc.decoding.drafters.heads.draft_vocab.microspec import MicroSpec, WindowOptions

SETS = 16  # of rows, used in turn
TREE, TOP, ACCEPTED = 60, 3, 4  # nodes of a draft tree, candidates per row, rows on the path
LAYER = 8  # matrix products instead of the draft head's layer
Way = Callable[[int], object]  # takes the index of one of the SETS


def main() -> None:
    """Measure and print the figures as JSON."""
    options = parse_options()
    if options.device == "cuda" and (not torch.cuda.is_available() or cuda.library() is None):
        sys.exit("needs an NVIDIA device and libtasc_cuda; --device cpu runs without")
    torch.set_num_threads(options.threads)
    publish(measure(options), options.json)


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse ``arguments``, or the command line."""
    parser = script(__doc__, threads=True, vocabulary=151_646, width=4096, window=3072, repeats=48)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--step-rows", type=int, default=64, help="rows that a step adds")
    found: argparse.Namespace = parser.parse_args(arguments)
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of the gathers and of a step."""
    torch.manual_seed(0)
    head = nn.Linear(options.width, options.vocabulary, bias=False, device="meta")
    head = head.to_empty(device=options.device).to(getattr(torch, options.dtype))
    nn.init.normal_(head.weight[: options.window])  # only real memory matters, not its values
    head.weight.detach()[options.window :].fill_(0.5)
    with torch.inference_mode():
        return {
            "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
            "threads": options.threads,
            "gather": [
                gather(head.weight.detach(), rows, options)
                for rows in (options.window, options.step_rows)
            ],
            "step": step(head, options),
        }


def seconds(device: str, run: Callable[[], object]) -> float:
    """Return the seconds of ``run``, on CUDA by the clock of the device."""
    if device == "cpu":
        return timed(run)[0]
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(2_000_000)  # launches queue up behind it and are not timed
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def alternate(ways: dict[str, Way], options: argparse.Namespace) -> dict[str, list[float]]:
    """Run all ways in turn, after a round to warm up; return the seconds of each run."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    for repeat in range(-SETS, options.repeats):
        for way, run in ways.items():
            taken = seconds(options.device, partial(run, repeat % SETS))
            if repeat >= 0:
                times[way].append(taken)
    return times


def gather(weight: torch.Tensor, rows: int, options: argparse.Namespace) -> dict[str, Any]:
    """Time the ways to collect ``rows`` rows of ``weight`` (V, H) in one buffer."""
    vocabulary, width = weight.shape
    chosen = [torch.randperm(vocabulary)[:rows].int().to(weight.device) for _ in range(SETS)]
    starts = torch.randint(0, vocabulary - rows + 1, (SETS,)).tolist()
    wide = [ids.long() for ids in chosen]
    held = torch.full((rows,), -1, dtype=torch.int32, device=weight.device)
    buffer = weight.new_zeros(rows, width)
    ways: dict[str, Way] = {
        "gather": lambda i: window.gather(weight, chosen[i], held, buffer),
        "copy": lambda i: buffer.copy_(weight[starts[i] : starts[i] + rows]),
        # Rows that the gather has not just cached.
        "index_select": lambda i: torch.index_select(
            weight, 0, wide[(i + SETS // 2) % SETS], out=buffer
        ),
    }
    times = alternate(ways, options)
    moved = 2 * rows * width * weight.element_size()  # read and written
    medians = {way: statistics.median(t) for way, t in times.items()}
    return {
        "rows": rows,
        "bytes": moved // 2,
        "median_us": {way: t * 1e6 for way, t in medians.items()},
        "gigabytes_per_second": {way: moved / t / 1e9 for way, t in medians.items()},
        "gather_of_copy_bandwidth": medians["copy"] / medians["gather"],
        "all_us": {way: [round(t * 1e6, 2) for t in ts] for way, ts in times.items()},
    }


def step(head: nn.Linear, options: argparse.Namespace) -> dict[str, Any]:
    """Time MicroSpec's part of a step, alone and in parallel with the draft head's layer."""
    device, size = options.device, options.window
    found = MicroSpec(head, WindowOptions(window=size))
    seen = torch.randint(0, options.vocabulary, (size,), device=device)
    found.start(seen, head.weight.new_zeros(0, options.width))
    hidden = head.weight.new_ones(10, options.width)
    layer = head.weight.new_full((options.width, options.width), 1e-3)
    trees = torch.randint(0, options.vocabulary, (SETS * 8, TREE), device=device)
    rows = torch.randn(TREE + 1, options.vocabulary, device=device)
    kept = torch.arange(ACCEPTED, device=device)
    drafts = itertools.cycle(trees)

    def update(_: int) -> None:
        found.drafted(next(drafts))
        found.observe(kept, rows, kept)

    def backbone(_: int) -> None:
        state = hidden
        for _ in range(LAYER):
            state = state @ layer

    def everything(i: int) -> None:
        update(i)
        backbone(i)
        found.logits(hidden)

    def alone(i: int) -> None:
        update(i)
        if found._stream is not None:  # else only the launches would be timed
            torch.cuda.current_stream().wait_stream(found._stream)

    ways: dict[str, Way] = {
        "update": alone,
        "layer": backbone,
        "pruned_head": lambda _: found.logits(hidden),
        "full_head": lambda _: head(hidden),
        "update_beside_layer_then_pruned_head": everything,
    }
    times = alternate(ways, options)
    return {
        "median_us": {way: statistics.median(t) * 1e6 for way, t in times.items()},
        "host_waits": waits(everything) if device == "cuda" else None,
        "active": int((found.ids >= 0).sum()),
    }


def waits(run: Way) -> str | None:
    """Return torch's message about the first wait for the device in ``run``, or None."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run(0)
    except RuntimeError as error:
        return str(error)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return None


if __name__ == "__main__":
    main()
