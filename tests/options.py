"""Options for tests that hand the library its texts, tokenizers and models themselves."""

from functools import partial
from typing import Any

from tasc.analysis import options as analysis
from tasc.benchmark import options as bench
from tasc.options.command import StepOptions
from tasc.options.task import Data
from tasc.training import options as training
from tasc.vocab.search import options as vocab
from tests.seeds import SEED

_SOURCE: dict[str, Any] = {"source": Data(path="task.jsonl")}

AnalyzeOptions = partial(analysis.AnalyzeOptions, **_SOURCE)
AugmentOptions = partial(vocab.AugmentOptions, **_SOURCE, tokenizer="t")
BaseOptions = partial(training.BaseOptions, **_SOURCE, seed=SEED)
BenchOptions = partial(bench.BenchOptions, **_SOURCE, models=("m",))
FinetuneOptions = partial(training.FinetuneOptions, **_SOURCE, model="m", seed=SEED)
HeadOptions = partial(FinetuneOptions, draft_head=True)
SHORT_ANSWERS: dict[str, Any] = {"max_length": 64, "max_new_tokens": 20, "device": "cpu"}
FOURS: dict[str, Any] = {"batch_size": 4, "effective_batch": 4}


def replace(options: StepOptions, **changes: Any) -> Any:
    """Return the same options with changes, as dataclasses.replace does."""
    return options.but(**changes)
