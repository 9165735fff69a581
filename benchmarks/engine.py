"""Time the decoding loop against transformers' generate: same model, prompts and run.

Autoregressive against autoregressive and, where a method called prompt-lookup is there, prompt
lookup against transformers' prompt_lookup_num_tokens. Models have random weights in the shape of
real ones: speed does not depend on them, but acceptance does, so prompt lookup compares harnesses,
not methods. Ways alternate within a repeat, so that drift of the machine hits all alike; ratios are
of neighbouring runs. Usage: python -m benchmarks.engine [--models 30m 0.5b] [--json FILE]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config

from benchmarks.figures import add_json, publish
from tasc.decoding.decode import Generation, generate
from tasc.decoding.drafters import DRAFTERS, Resources, parse
from tasc.models.from_model import target_from_model
from tasc.models.load import device_has_bfloat16

SHAPES: dict[str, dict[str, Any]] = {
    "30m": {
        "vocab_size": 32_000,
        "hidden_size": 384,
        "intermediate_size": 1536,
        "num_hidden_layers": 8,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
    },
    "0.5b": {  # Qwen2.5-0.5B
        "vocab_size": 151_936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    },
}
LOOKUP = 10  # tokens that prompt lookup drafts, here and there
PAIRS = (("ours", "transformers"), ("ours prompt-lookup", "transformers prompt-lookup"))
Way = Callable[[np.ndarray], tuple[np.ndarray, float, float]]  # tokens, seconds, of them forwards


def main() -> None:
    """Measure every model and print the figures as JSON."""
    options = parse_options()
    torch.set_num_threads(options.threads)
    results = [measure(name, options) for name in options.models]
    figures = {
        "threads": options.threads,
        "results": results,
    }
    publish(figures, options.json)


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    add_json(parser)
    return parser.parse_args()


def build(name: str, dtype: str, seed: int) -> PreTrainedModel:
    """Return a model with random weights that never ends an output."""
    torch.manual_seed(seed)
    config = Qwen2Config(**SHAPES[name], tie_word_embeddings=True, eos_token_id=None)
    if dtype == "auto":
        fast = name != "30m" and device_has_bfloat16(torch.device("cpu"))
        dtype = "bfloat16" if fast else "float32"
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    model.generation_config.pad_token_id = 0
    return model.eval()


class ForwardClock:
    """Adds up the seconds spent inside the model's forward."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Hook the model; ``seconds`` is to be read and reset."""
        self.seconds = 0.0
        model.register_forward_pre_hook(self._begin, with_kwargs=True)
        model.register_forward_hook(self._end, with_kwargs=True)

    def _begin(self, *_: Any) -> None:  # noqa: ANN401
        self.begin = time.perf_counter()

    def _end(self, *_: Any) -> None:  # noqa: ANN401
        self.seconds += time.perf_counter() - self.begin


def timed(clock: ForwardClock, run: Callable[[], np.ndarray]) -> tuple[np.ndarray, float, float]:
    """Return the tokens of a run, its seconds, and how many of them were forwards."""
    clock.seconds, begin = 0.0, time.perf_counter()
    tokens = run()
    return tokens, time.perf_counter() - begin, clock.seconds


def ways(model: PreTrainedModel, clock: ForwardClock, new_tokens: int) -> dict[str, Way]:
    """Return what is compared, by name."""

    def theirs(prompt: np.ndarray, **more: int) -> tuple[np.ndarray, float, float]:
        ids = torch.from_numpy(prompt.astype(np.int64))[None]
        limits = {"max_new_tokens": new_tokens, "do_sample": False} | more

        def run() -> np.ndarray:
            out: np.ndarray = model.generate(ids, **limits)[0, len(prompt) :].numpy()
            return out

        return timed(clock, run)

    def ours(prompt: np.ndarray, text: str = "ar") -> tuple[np.ndarray, float, float]:
        factory = parse(text).prepare(Resources([np.array([1], np.int32)], -1))
        with target_from_model(model) as target:

            def run() -> np.ndarray:
                done: Generation = generate(
                    target,
                    factory(),
                    prompt,
                    max_new_tokens=new_tokens,
                    budget=LOOKUP if text != "ar" else 0,
                )
                return done.tokens

            return timed(clock, run)

    found: dict[str, Way] = {"ours": ours, "transformers": theirs}
    if "prompt-lookup" in DRAFTERS:
        found["ours prompt-lookup"] = lambda p: ours(p, "prompt-lookup")
        found["transformers prompt-lookup"] = lambda p: theirs(p, prompt_lookup_num_tokens=LOOKUP)
    return found


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run every way on every prompt, in turn, once to warm up and then ``repeats`` times."""
    model = build(name, options.dtype, options.seed)
    rng = np.random.default_rng(options.seed)
    size = (options.prompts, options.prompt_tokens)
    prompts = rng.integers(0, model.config.vocab_size, size).astype(np.int32)
    compared = ways(model, ForwardClock(model), options.new_tokens)
    runs: dict[str, list[tuple[np.ndarray, float, float]]] = {way: [] for way in compared}
    for repeat in range(options.repeats + 1):
        for prompt in prompts:
            # Who goes first changes, so that nobody always finds warm caches.
            for way, run in list(compared.items())[:: -1 if repeat % 2 else 1]:
                outcome = run(prompt)
                if repeat:
                    runs[way].append(outcome)
    return {
        "model": name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "dtype": str(model.dtype).removeprefix("torch."),
        "new_tokens": options.new_tokens,
        "prompt_tokens": options.prompt_tokens,
        "runs_a_way": options.repeats * options.prompts,
        "ways": {way: describe(done) for way, done in runs.items()},
        "ratios": [ratio(runs, *pair) for pair in PAIRS if pair[0] in runs],
        "outputs_equal_to_transformers": {
            way: all(
                np.array_equal(a[0], b[0]) for a, b in zip(done, runs["transformers"], strict=True)
            )
            for way, done in runs.items()
        },
    }


def describe(done: list[tuple[np.ndarray, float, float]]) -> dict[str, Any]:
    """Return tokens per second, their spread, and the share of time inside forwards."""
    speeds = [len(tokens) / seconds for tokens, seconds, _ in done]
    shares = [forward / seconds for _, seconds, forward in done]
    return {
        "tokens_per_second_median": statistics.median(speeds),
        "tokens_per_second_best": max(speeds),
        "tokens_per_second_p10_p90": np.percentile(speeds, [10, 90]).tolist(),
        "forward_share_median": statistics.median(shares),
        "forward_share_least": min(shares),
        "outside_forwards_us_per_token_median": statistics.median(
            1e6 * (seconds - forward) / len(tokens) for tokens, seconds, forward in done
        ),
        "all_s": [round(seconds, 5) for _, seconds, _ in done],
    }


def ratio(
    runs: dict[str, list[tuple[np.ndarray, float, float]]], way: str, against: str
) -> dict[str, Any]:
    """Return how many times as fast ``way`` is, run by neighbouring run."""
    ratios = [b[1] / a[1] for a, b in zip(runs[way], runs[against], strict=True)]
    return {
        "of": way,
        "to": against,
        "median": statistics.median(ratios),
        "p10_p90": np.percentile(ratios, [10, 90]).tolist(),
        "of_fastest_runs": min(b[1] for b in runs[against]) / min(a[1] for a in runs[way]),
    }


if __name__ == "__main__":
    main()
