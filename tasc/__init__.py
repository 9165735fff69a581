"""TASC: task-adaptive compression pipelines for small language models.

Each command is a function: ``tasc.augment(tasc.AugmentOptions(...))`` runs ``tasc augment``, and
returns its result in memory.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasc.analysis.options import AnalyzeOptions as AnalyzeOptions
    from tasc.benchmark.join import ReportOptions as ReportOptions
    from tasc.benchmark.join import join_results as join_results
    from tasc.benchmark.load_options import LoadOptions as LoadOptions
    from tasc.benchmark.options import BenchOptions as BenchOptions
    from tasc.benchmark.options import TuneOptions as TuneOptions
    from tasc.benchmark.options import VocabularyOptions as VocabularyOptions
    from tasc.benchmark.pages.write import write_pages as write_pages
    from tasc.benchmark.paired.compare import CompareOptions as CompareOptions
    from tasc.benchmark.paired.compare import compare_results as compare_results
    from tasc.commands.calls import analyze as analyze
    from tasc.commands.calls import augment as augment
    from tasc.commands.calls import base as base
    from tasc.commands.calls import bench as bench
    from tasc.commands.calls import compare_vocabularies as compare_vocabularies
    from tasc.commands.calls import export as export
    from tasc.commands.calls import finetune as finetune
    from tasc.commands.calls import index as index
    from tasc.commands.calls import load_test as load_test
    from tasc.commands.calls import tune as tune
    from tasc.commands.inspect_data import DataOptions as DataOptions
    from tasc.commands.inspect_data import inspect_data as inspect_data
    from tasc.commands.starter.options import InitOptions as InitOptions
    from tasc.commands.starter.write import start_recipe as start_recipe
    from tasc.decoding.choices import Choice as Choice
    from tasc.decoding.choices import choose as choose
    from tasc.decoding.core.sampling import Sampling as Sampling
    from tasc.decoding.custom_generate import custom_generate as custom_generate
    from tasc.decoding.drafters.ngram.options import IndexOptions as IndexOptions
    from tasc.decoding.library import Completion as Completion
    from tasc.decoding.library import generate as generate
    from tasc.decoding.loaded import LoadedModel as LoadedModel
    from tasc.decoding.loaded import load as load
    from tasc.options.task import Data as Data
    from tasc.serving.exports.transformers import load_custom_generate as load_custom_generate
    from tasc.serving.options import ExportOptions as ExportOptions
    from tasc.training.options import BaseOptions as BaseOptions
    from tasc.training.options import FinetuneOptions as FinetuneOptions
    from tasc.vocab.search.options import AugmentOptions as AugmentOptions

__version__ = "0.1.0"

# module -> its public names, imported on first use because torch and transformers load slowly.
# A function must not have the name of a folder: importing the folder would replace the function.
_PUBLIC = {
    "tasc.analysis.options": "AnalyzeOptions",
    "tasc.benchmark.join": "ReportOptions join_results",
    "tasc.benchmark.load_options": "LoadOptions",
    "tasc.benchmark.options": "BenchOptions TuneOptions VocabularyOptions",
    "tasc.benchmark.pages.write": "write_pages",
    "tasc.benchmark.paired.compare": "CompareOptions compare_results",
    "tasc.commands.calls": "analyze augment base bench compare_vocabularies export "
    "finetune index load_test tune",
    "tasc.commands.inspect_data": "DataOptions inspect_data",
    "tasc.commands.starter.options": "InitOptions",
    "tasc.commands.starter.write": "start_recipe",
    "tasc.decoding.choices": "Choice choose",
    "tasc.decoding.core.sampling": "Sampling",
    "tasc.decoding.custom_generate": "custom_generate",
    "tasc.decoding.drafters.ngram.options": "IndexOptions",
    "tasc.decoding.library": "Completion generate",
    "tasc.decoding.loaded": "LoadedModel load",
    "tasc.options.task": "Data",
    "tasc.serving.exports.transformers": "load_custom_generate",
    "tasc.serving.options": "ExportOptions",
    "tasc.training.options": "BaseOptions FinetuneOptions",
    "tasc.vocab.search.options": "AugmentOptions",
}
__all__ = [name for names in _PUBLIC.values() for name in names.split()]


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    for module, names in _PUBLIC.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'tasc' has no attribute {name!r}")
