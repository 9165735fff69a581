"""Compare the decoding loop with llama.cpp, in tokens per second of one thread.

Weights of 16, 8 and 4 bits, each plain and with drafts: ours from the training outputs, theirs
from caches of their n-grams (as ``tasc export`` writes them) and from what was written before
(ngram-mod). All ways decode the same prompts greedily and take turns. llama.cpp starts anew for
each turn, which is not timed. Its package comes from an environment of its own; Q4_K_M needs its
program llama-quantize:
PYTHONPATH=build/llama-venv/lib/python3.11/site-packages OMP_NUM_THREADS=1 \
  python -m benchmarks.serving.llama --models baseline=FOLDER tasc-ft=FOLDER --data-dir DIR
"""

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import tasc
from benchmarks.figures import publish, script, timed
from benchmarks.task import Task, by_us
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.library import prepare
from tasc.models.load import DecodingDtype, load_to_decode
from tasc.models.target import Target

# theirs: ours
WEIGHTS: dict[str, DecodingDtype | None] = {"f16": "bfloat16", "q8_0": "int8", "q4_k_m": None}
METHODS = ("ar", "tasc-spec")
DRAFTS = ("NONE", "NGRAM_MOD", "NGRAM_CACHE")  # llama.cpp's types of drafts
Name = tuple[str, str, str]  # model, weights, method
Way = Callable[[], tuple[float, list[list[int]]]]


def main() -> None:
    """Measure and print the figures as JSON."""
    parser = script(__doc__, data_dir=Path, prompts=50, new_tokens=128, repeats=5)
    parser.add_argument("--models", nargs="+", required=True, help="NAME=FOLDER, baseline first")
    parser.add_argument("--weights", nargs="+", default=list(WEIGHTS), choices=WEIGHTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        ways: dict[Name, Way] = {}
        for model in options.models:
            name, _, path = model.partition("=")
            task = Task.load(path, options.data_dir, options.prompts)
            for weights in options.weights:
                out = Path(folder, name, weights)
                for method, way in _ways(path, task, weights, out, options):
                    ways[name, weights, method] = way
        publish({"prompts": options.prompts, "ways": compare(ways, options.repeats)}, options.json)


def _ways(
    model: str,
    task: Task,
    weights: str,
    out: Path,
    options: Any,  # noqa: ANN401
) -> Iterator[tuple[str, Way]]:
    """Export to the folder ``out``; yield the methods for ``weights``."""
    out.mkdir(parents=True)
    dtype = WEIGHTS[weights]
    kept = weights if dtype else "f16"
    tasc.export(
        tasc.ExportOptions(model=model, source=str(options.data_dir), to="llama-cpp", weights=kept)
    ).save(out)
    file = out / "model.gguf"
    if dtype is None:
        whole, file = file, out / f"{weights}.gguf"
        subprocess.run(["llama-quantize", whole, file, weights], check=True, capture_output=True)
    else:
        target = Target(load_to_decode(model, dtype, "cpu", None))
        for method in METHODS:
            known = Resources((), task.end, target=target)
            make = prepare(parse(method), task.outputs, None, known)
            limits = {"new_tokens": options.new_tokens, "end": task.end}
            yield method, partial(timed, partial(by_us, target, make, task.prompts, 1, **limits))
    for kind in DRAFTS:
        theirs = partial(by_llama, file, kind, task.prompts, options.new_tokens)
        yield f"llama.cpp {kind}", theirs


def by_llama(
    model: Path, drafts: str, prompts: Sequence[np.ndarray], new_tokens: int
) -> tuple[float, list[list[int]]]:
    """Decode with llama.cpp's server; return its seconds for prompts and outputs, and the ids."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.cpuparams.n_threads, params.n_parallel = 1024, 1, 1
    params.cpuparams_batch.n_threads = 1
    known = xllamacpp.common_speculative_type
    params.speculative.types = [getattr(known, f"COMMON_SPECULATIVE_TYPE_{drafts}")]
    if drafts == "NGRAM_CACHE":
        caches = params.speculative.ngram_cache
        caches.lookup_cache_static = str(model.parent / "ngrams-static.bin")
        caches.lookup_cache_dynamic = str(model.parent / "ngrams-dynamic.bin")
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


def compare(ways: dict[Name, Way], repeats: int) -> list[dict[str, Any]]:
    """Run all ways in turn; compare with llama.cpp of the same model, and of the first, undrafted.

    Outputs are compared with the first method of the same model and weights.
    """
    seconds: dict[Name, list[float]] = {name: [] for name in ways}
    outputs: dict[Name, list[list[int]]] = {}
    for repeat in range(-1, repeats):  # one turn warms up
        for name, way in list(ways.items())[:: 1 if repeat % 2 else -1]:
            once, outputs[name] = way()
            if repeat >= 0:
                seconds[name].append(once)
    first, plain = next(iter(ways))[0], f"llama.cpp {DRAFTS[0]}"
    found = []
    for (model, weights, method), taken in seconds.items():
        ids = outputs[model, weights, method]
        same = next(ids for name, ids in outputs.items() if name[:2] == (model, weights))
        rates = [sum(map(len, ids)) / one for one in taken]
        row: dict[str, Any] = {"model": model, "weights": weights, "method": method}
        row |= {"tokens_per_second": float(np.median(rates)), "by_repeat": rates}
        row |= {"ms_a_prompt": 1000 * float(np.median(taken)) / len(ids)}
        for what, other in (("alone", model), ("first", first)):
            theirs = seconds[other, weights, plain]
            times = [a / b for a, b in zip(theirs, taken, strict=True)]
            row |= {f"times_{what}": float(np.median(times)), f"times_{what}_spread": times}
        row["equal_outputs"] = sum(a == b for a, b in zip(ids, same, strict=True))
        found.append(row)
    return found


if __name__ == "__main__":
    main()
