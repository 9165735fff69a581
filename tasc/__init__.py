"""TASC: task-adaptive compression pipelines for small language models.

Each command is a call: ``tasc.augment(tasc.AugmentOptions(...))`` does what ``tasc augment`` does,
and returns its result in memory.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasc.analysis.options import AnalyzeOptions
    from tasc.benchmark.joined.join import join_results
    from tasc.benchmark.joined.options import ReportOptions
    from tasc.benchmark.judge.options import JudgeOptions
    from tasc.benchmark.load.options import LoadOptions
    from tasc.benchmark.options import BenchOptions, TuneOptions, VocabularyOptions
    from tasc.benchmark.paired.compare import compare_results
    from tasc.benchmark.paired.options import CompareOptions
    from tasc.commands.calls import (
        analyze,
        augment,
        base,
        bench,
        compare_vocabularies,
        count_shard,
        export,
        finetune,
        index,
        judge,
        load_test,
        tune,
    )
    from tasc.commands.data.options import DataOptions
    from tasc.commands.data.report import inspect_data
    from tasc.commands.starter.options import InitOptions
    from tasc.commands.starter.write import start_recipe
    from tasc.decoding.core.sampling import Sampling
    from tasc.decoding.custom_generate import custom_generate
    from tasc.decoding.drafters.ngram.options import IndexOptions
    from tasc.decoding.library import Completion, generate
    from tasc.options.command import Data
    from tasc.serving.options import ExportOptions
    from tasc.training.options import BaseOptions, FinetuneOptions
    from tasc.vocab.search.options import AugmentOptions

__version__ = "0.1.0"

__all__ = [
    "AnalyzeOptions",
    "AugmentOptions",
    "BaseOptions",
    "BenchOptions",
    "CompareOptions",
    "Completion",
    "Data",
    "DataOptions",
    "ExportOptions",
    "FinetuneOptions",
    "IndexOptions",
    "InitOptions",
    "JudgeOptions",
    "LoadOptions",
    "ReportOptions",
    "Sampling",
    "TuneOptions",
    "VocabularyOptions",
    "analyze",
    "augment",
    "base",
    "bench",
    "compare_results",
    "compare_vocabularies",
    "count_shard",
    "custom_generate",
    "export",
    "finetune",
    "generate",
    "index",
    "inspect_data",
    "join_results",
    "judge",
    "load_test",
    "start_recipe",
    "tune",
]

# module -> names in it; torch and transformers are imported when one of them is first asked for.
# A call is not named as a room is: importing tasc.benchmark would put the room in its position.
_PUBLIC = {
    "tasc.analysis.options": "AnalyzeOptions",
    "tasc.benchmark.joined.join": "join_results",
    "tasc.benchmark.joined.options": "ReportOptions",
    "tasc.benchmark.judge.options": "JudgeOptions",
    "tasc.benchmark.load.options": "LoadOptions",
    "tasc.benchmark.options": "BenchOptions TuneOptions VocabularyOptions",
    "tasc.benchmark.paired.options": "CompareOptions",
    "tasc.benchmark.paired.compare": "compare_results",
    "tasc.training.options": "BaseOptions FinetuneOptions",
    "tasc.options.command": "Data",
    "tasc.commands.calls": "analyze augment base bench compare_vocabularies count_shard export "
    "finetune index judge load_test tune",
    "tasc.commands.data.options": "DataOptions",
    "tasc.commands.data.report": "inspect_data",
    "tasc.commands.starter.options": "InitOptions",
    "tasc.commands.starter.write": "start_recipe",
    "tasc.serving.options": "ExportOptions",
    "tasc.decoding.custom_generate": "custom_generate",
    "tasc.decoding.library": "Completion generate",
    "tasc.decoding.drafters.ngram.options": "IndexOptions",
    "tasc.decoding.core.sampling": "Sampling",
    "tasc.vocab.search.options": "AugmentOptions",
}


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    for module, names in _PUBLIC.items():
        if name in names.split():
            import importlib

            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'tasc' has no attribute {name!r}")
