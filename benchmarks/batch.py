"""Compare the loop with transformers' generate: tokens per second at batch 1 and more.

Every method decodes the same prompts greedily, in turn, so that drift of the machine hits all
alike; transformers gets its prompts padded on the left, a batch at a time. Twice: up to the end
token, as users do, and always to the same length, which leaves the loops alone to differ.
Usage: python -m benchmarks.batch --model FOLDER --data-dir DIR [--json FILE]
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from benchmarks.figures import add_json, publish
from tasc.benchmark.matrix import Loaded
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Factory, Resources, parse
from tasc.models.load import load_model
from tasc.models.target import Target
from tasc.tokenizer.loaded import load_tokenizer

Outputs = list[list[int]]
METHODS = ("ar", "tasc-spec")


def main() -> None:
    """Measure and print the figures as JSON."""
    options = parse_options()
    tokenizer = load_tokenizer(options.model)
    model = load_model(options.model, dtype=options.dtype)
    ours = Loaded("model", Target(model), tokenizer, (tokenizer.eos_id,))
    theirs = load_model(options.model, dtype=options.dtype)
    source = Source(str(options.data_dir))
    prompts = ours.encode(load(source, "test").prompts[: options.prompts])
    resources = Resources(ours.encode(load(source, "train").outputs), tokenizer.eos_id)
    factories = {name: parse(name).prepare(resources) for name in METHODS}
    figures: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "dtype": options.dtype,
        "parameters": model.num_parameters(),
        "prompts": len(prompts),
        "prompt_tokens": {"mean": float(np.mean([len(p) for p in prompts]))},
        "new_tokens": options.new_tokens,
    }
    for name, end in (("to_the_end_token", tokenizer.eos_id), ("to_one_length", None)):
        limits = {"new_tokens": options.new_tokens, "end": end}
        cells: dict[str, Callable[[], Outputs]] = {}
        for size in options.batch:
            cells[f"transformers, batch {size}"] = partial(
                by_transformers, theirs, prompts, size, **limits
            )
            for method, factory in factories.items():
                cells[f"{method}, batch {size}"] = partial(
                    by_us, ours.target, factory, prompts, size, **limits
                )
        figures[name] = measure(cells, options.repeats)
    publish(figures, options.json)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", type=Path, required=True, help="a data set's folder")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dtype", default="float32")
    add_json(parser)
    return parser.parse_args()


def by_us(
    target: Target,
    factory: Factory,
    prompts: Sequence[np.ndarray],
    size: int,
    *,
    new_tokens: int,
    end: int | None,
) -> Outputs:
    """Decode on our loop, ``size`` prompts at a time."""
    ends = () if end is None else (end,)
    asked = [Request(prompt, factory) for prompt in prompts]
    results = generate_all(target, asked, max_new_tokens=new_tokens, end_ids=ends, batch_size=size)
    return [result.tokens.tolist() for result in results]


def by_transformers(
    model: PreTrainedModel,
    prompts: Sequence[np.ndarray],
    size: int,
    *,
    new_tokens: int,
    end: int | None,
    **more: int,
) -> Outputs:
    """Decode with generate, padded on the left; tokens after an end token are cut off.

    ``more`` are further options of generate.
    """
    outputs: Outputs = []
    model.generation_config.eos_token_id = end
    for at in range(0, len(prompts), size):
        some = prompts[at : at + size]
        longest = max(map(len, some))
        ids = torch.zeros((len(some), longest), dtype=torch.int64, device=model.device)
        mask = torch.zeros_like(ids)
        for i, prompt in enumerate(some):
            ids[i, longest - len(prompt) :] = torch.from_numpy(prompt.astype(np.int64)).to(ids)
            mask[i, longest - len(prompt) :] = 1
        options = {"max_new_tokens": new_tokens, "do_sample": False, "pad_token_id": 0} | more
        out = model.generate(ids, attention_mask=mask, **options)
        for row in out[:, longest:].tolist():
            outputs.append(row[: row.index(end) + 1] if end in row else row)
    return outputs


def measure(cells: dict[str, Callable[[], Outputs]], repeats: int) -> list[dict[str, Any]]:
    """Run all cells in turn; tokens per second of each, and against transformers' at its batch.

    The ratio is also given in seconds of the processor, which other processes do not stretch.
    """
    outputs = {name: cell() for name, cell in cells.items()}  # warms up, and is compared below
    first = next(iter(outputs.values()))
    rates: dict[str, list[float]] = {name: [] for name in cells}
    per_second: dict[str, list[float]] = {name: [] for name in cells}  # of the processor
    for _ in range(repeats):
        for name, cell in cells.items():
            begin, busy = time.perf_counter(), time.process_time()
            tokens = sum(map(len, cell()))
            rates[name].append(tokens / (time.perf_counter() - begin))
            per_second[name].append(tokens / (time.process_time() - busy))
    result = []
    for name, values in rates.items():
        rival = f"transformers, batch {name.rpartition(' ')[2]}"
        ratios = [a / b for a, b in zip(values, rates[rival], strict=True)]
        busy_ratios = [a / b for a, b in zip(per_second[name], per_second[rival], strict=True)]
        result.append(
            {
                "method": name,
                "tokens_per_second": statistics.median(values),
                "tokens_per_second_by_repeat": values,
                "times_transformers": statistics.median(ratios),
                "times_transformers_by_repeat": ratios,
                "times_transformers_by_processor_time": statistics.median(busy_ratios),
                "times_transformers_by_processor_time_by_repeat": busy_ratios,
                "outputs_equal_to_the_first_method": sum(
                    a == b for a, b in zip(outputs[name], first, strict=True)
                ),
            }
        )
    return result


if __name__ == "__main__":
    main()
