"""TASC: task-adaptive compression pipelines for small language models.

Each command is a call: ``tasc.augment(tasc.AugmentOptions(...))`` does what ``tasc augment`` does,
and returns its result in memory.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasc.analysis.options import AnalyzeOptions
    from tasc.bench.options import BenchOptions, CompareOptions, TuneOptions, VocabularyOptions
    from tasc.bench.paired.compare import compare_results
    from tasc.finetune.options import BaseOptions, FinetuneOptions
    from tasc.options import Data
    from tasc.recipe.calls import (
        analyze,
        augment,
        base,
        benchmark,
        compare_vocabularies,
        export,
        fine_tune,
        index,
        tune,
    )
    from tasc.serving.options import ExportOptions
    from tasc.spec.core.sampling import Sampling
    from tasc.spec.custom_generate import custom_generate
    from tasc.spec.drafters.ngram.options import IndexOptions
    from tasc.spec.library import Completion, generate
    from tasc.vocab.options import AugmentOptions

__version__ = "0.1.0"

__all__ = [
    "AnalyzeOptions",
    "AugmentOptions",
    "BaseOptions",
    "BenchOptions",
    "CompareOptions",
    "Completion",
    "Data",
    "ExportOptions",
    "FinetuneOptions",
    "IndexOptions",
    "Sampling",
    "TuneOptions",
    "VocabularyOptions",
    "analyze",
    "augment",
    "base",
    "benchmark",
    "compare_results",
    "compare_vocabularies",
    "custom_generate",
    "export",
    "fine_tune",
    "generate",
    "index",
    "tune",
]

# module -> names in it; torch and transformers are imported when one of them is first asked for.
# A call is not named as a room is: importing tasc.bench would put the room in its place.
_PUBLIC = {
    "tasc.analysis.options": "AnalyzeOptions",
    "tasc.bench.options": "BenchOptions CompareOptions TuneOptions VocabularyOptions",
    "tasc.bench.paired.compare": "compare_results",
    "tasc.finetune.options": "BaseOptions FinetuneOptions",
    "tasc.options": "Data",
    "tasc.recipe.calls": "analyze augment base benchmark compare_vocabularies export fine_tune "
    "index tune",
    "tasc.serving.options": "ExportOptions",
    "tasc.spec.custom_generate": "custom_generate",
    "tasc.spec.library": "Completion generate",
    "tasc.spec.drafters.ngram.options": "IndexOptions",
    "tasc.spec.core.sampling": "Sampling",
    "tasc.vocab.options": "AugmentOptions",
}


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    for module, names in _PUBLIC.items():
        if name in names.split():
            import importlib

            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'tasc' has no attribute {name!r}")
