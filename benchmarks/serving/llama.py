"""Compare the decoding loop with llama.cpp, in tokens per second of one thread.

Weights of 16 and of 8 bits, each plain and with drafts: ours from the training outputs, theirs
from caches of their n-grams (as ``tasc export`` writes them) and from what was written before
(ngram-mod). All ways decode the same prompts greedily and take turns. llama.cpp starts anew for
each turn, which is not timed. Its package comes from an environment of its own:
PYTHONPATH=build/llama-venv/lib/python3.11/site-packages OMP_NUM_THREADS=1 \
  python -m benchmarks.serving.llama --model FOLDER --data-dir DIR [--json FILE]
"""

import json
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import tasc
from benchmarks.figures import publish, task_script, timed
from benchmarks.task import Task, by_us
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.library import prepare
from tasc.models.load import DecodingDtype, load_to_decode
from tasc.models.target import Target

WEIGHTS: dict[str, DecodingDtype] = {"f16": "bfloat16", "q8_0": "int8"}  # theirs: ours
METHODS = ("ar", "tasc-spec")
DRAFTS = ("NONE", "NGRAM_MOD", "NGRAM_CACHE")  # llama.cpp's types of drafts
Way = Callable[[], tuple[float, list[list[int]]]]


def main() -> None:
    """Measure and print the figures as JSON."""
    parser = task_script(__doc__, prompts=50, new_tokens=128)
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = Task.load(options.model, options.data_dir, options.prompts)
    limits = {"new_tokens": options.new_tokens, "end": task.end}
    with TemporaryDirectory() as folder:
        ways: dict[str, Way] = {}
        for weights, dtype in WEIGHTS.items():
            out = Path(folder, weights)
            given = {"model": options.model, "source": str(options.data_dir), "weights": weights}
            out.mkdir()
            tasc.export(tasc.ExportOptions(to="llama-cpp", **given)).save(out)
            target = Target(load_to_decode(options.model, dtype, "cpu", None))
            for method in METHODS:
                known = Resources((), task.end, target=target)
                make = prepare(parse(method), task.outputs, None, known)
                decode = partial(by_us, target, make, task.prompts, 1, **limits)
                ways[f"{weights} {method}"] = partial(timed, decode)
            for kind in DRAFTS:
                ways[f"{weights} llama.cpp {kind}"] = partial(
                    by_llama, out, kind, task.prompts, options.new_tokens
                )
        publish({"prompts": options.prompts, "ways": compare(ways, options.repeats)}, options.json)


def by_llama(
    folder: Path, drafts: str, prompts: Sequence[np.ndarray], new_tokens: int
) -> tuple[float, list[list[int]]]:
    """Decode with llama.cpp's server; return its seconds for prompts and outputs, and the ids."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(folder / "model.gguf")
    params.n_ctx, params.cpuparams.n_threads, params.n_parallel = 1024, 1, 1
    params.cpuparams_batch.n_threads = 1
    known = xllamacpp.common_speculative_type
    params.speculative.types = [getattr(known, f"COMMON_SPECULATIVE_TYPE_{drafts}")]
    if drafts == "NGRAM_CACHE":
        caches = params.speculative.ngram_cache
        caches.lookup_cache_static = str(folder / "ngrams-static.bin")
        caches.lookup_cache_dynamic = str(folder / "ngrams-dynamic.bin")
    server = xllamacpp.Server(params)  # ends with this function
    asked = {"n_predict": new_tokens, "temperature": 0, "return_tokens": True}
    seconds, found = 0.0, []
    for prompt in prompts:
        body = json.dumps(asked | {"prompt": prompt.tolist(), "cache_prompt": False}).encode()
        request = urllib.request.Request(
            f"{server.listening_address}/completion", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as reply:
            answer = json.load(reply)
        seconds += (answer["timings"]["prompt_ms"] + answer["timings"]["predicted_ms"]) / 1e3
        found.append(answer["tokens"])
    return seconds, found


def compare(ways: dict[str, Way], repeats: int) -> list[dict[str, Any]]:
    """Run all ways in turn; return tokens per second, and equal outputs within a data type."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    outputs: dict[str, list[list[int]]] = {}
    for repeat in range(-1, repeats):  # one turn warms up
        for name, way in list(ways.items())[:: 1 if repeat % 2 else -1]:
            seconds, outputs[name] = way()
            if repeat >= 0:
                rates[name].append(sum(map(len, outputs[name])) / seconds)
    firsts = {name: outputs[f"{name.split()[0]} {METHODS[0]}"] for name in ways}
    return [
        {
            "way": name,
            "tokens_per_second": float(np.median(rate)),
            "by_repeat": rate,
            "equal_outputs": sum(a == b for a, b in zip(outputs[name], firsts[name], strict=True)),
        }
        for name, rate in rates.items()
    ]


if __name__ == "__main__":
    main()
