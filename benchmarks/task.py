"""A model, a data set, and the ways to decode its prompts."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import GenerationConfig, PreTrainedModel

from benchmarks.figures import clocked
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Factory, Resources, parse
from tasc.models.load import load_model
from tasc.models.target import Target
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.generate_targets import answer

Outputs = list[list[int]]
Ways = dict[str, Callable[[], Outputs]]
LOOKUP = 10  # draft tokens of prompt lookup, for us and for transformers
THEIR_LOOKUP = "transformers prompt-lookup"


@dataclass(frozen=True)
class Task:
    """The model, prompts (L_i,) int32 of the test split, and outputs of the training split."""

    model: PreTrainedModel
    prompts: list[np.ndarray]
    outputs: list[np.ndarray]
    end: int

    @classmethod
    def load(cls, model: str, data: Path, prompts: int, **options: Any) -> "Task":  # noqa: ANN401
        """Read the folders of a model and a data set; ``options`` go to ``load_model``."""
        tokenizer, source = load_tokenizer(model), Source(str(data))
        asked = tokenizer.encode(load(source, "test").prompts[:prompts]).split()
        outputs = tokenizer.encode(load(source, "train").outputs).split()
        return cls(load_model(model, **options), asked, outputs, tokenizer.eos_id)

    def prepare(self, method: str, target: Target) -> Factory:
        """Prepare ``method`` with the training outputs."""
        return parse(method).prepare(Resources(self.outputs, self.end, target=target))

    def ways(
        self,
        target: Target,
        theirs: PreTrainedModel,
        methods: Sequence[str],
        sizes: Sequence[int],
        limits: Mapping[str, Any],
    ) -> Ways:
        """Return functions that decode all prompts, by name and batch size of the way.

        transformers decodes with ``theirs``, also with its prompt lookup if ours is one of
        ``methods``. ``limits`` are ``new_tokens`` and ``end``, the end token or None.
        """
        factories = {name: self.prepare(name, target) for name in methods}
        found: Ways = {}
        for size in sizes:
            found[f"transformers, batch {size}"] = partial(
                by_transformers, theirs, self.prompts, size, **limits
            )
            for name, factory in factories.items():
                found[f"{name}, batch {size}"] = partial(
                    by_us, target, factory, self.prompts, size, **limits
                )
        if "prompt-lookup" in methods:
            lookup = partial(by_transformers, settings={"prompt_lookup_num_tokens": LOOKUP})
            found[f"{THEIR_LOOKUP}, batch 1"] = partial(lookup, theirs, self.prompts, 1, **limits)
        return found


def by_us(
    target: Target,
    factory: Factory,
    prompts: Sequence[np.ndarray],
    size: int,
    *,
    new_tokens: int,
    end: int | None,
) -> Outputs:
    """Decode with our loop, ``size`` prompts at a time."""
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
    settings: Mapping[str, Any] | None = None,
) -> Outputs:
    """Decode with transformers' generate: greedily, or as ``settings`` of its configuration."""
    model.generation_config.eos_token_id = end  # the default for None
    told = {"max_new_tokens": new_tokens, "do_sample": False, "pad_token_id": 0}
    config = GenerationConfig(**told | {"eos_token_id": end} | dict(settings or {}))
    return [
        output.tolist()
        for at in range(0, len(prompts), size)
        for output in answer(model, prompts[at : at + size], config)
    ]


def compare(ways: Ways, repeats: int) -> list[dict[str, Any]]:
    """Run all ways in turn; return tokens per second, and the ratio to transformers by batch size.

    The order alternates, so that no way always has warm caches. Ratios are also given in CPU
    seconds, which other processes do not stretch.
    """
    outputs = {name: way() for name, way in ways.items()}  # to warm up and to compare
    first = next(iter(outputs.values()))
    rates: dict[str, list[dict[str, float]]] = {name: [] for name in ways}  # by clock
    for repeat in range(repeats):
        for name, way in list(ways.items())[:: 1 if repeat % 2 else -1]:
            with clocked() as clock:
                tokens = sum(map(len, way()))
            rates[name].append({which: tokens / seconds for which, seconds in clock.items()})
    result = []
    for name, values in rates.items():
        rival = rates[f"transformers, batch {name.rpartition(' ')[2]}"]
        figures = {"tokens_per_second": [rate["seconds"] for rate in values]}
        for which, suffix in (("seconds", ""), ("processor_seconds", "_by_processor_time")):
            ratios = [a[which] / b[which] for a, b in zip(values, rival, strict=True)]
            figures[f"times_transformers{suffix}"] = ratios
        equal = sum(a == b for a, b in zip(outputs[name], first, strict=True))
        result.append(
            {"method": name, "outputs_equal_to_the_first_method": equal}
            | {what: statistics.median(found) for what, found in figures.items()}
            | {f"{what}_by_repeat": found for what, found in figures.items()}
        )
    return result
