"""The commands by name, each with the class of its options: what a recipe's steps may be."""

from tasc.analysis.options import AnalyzeOptions
from tasc.benchmark.load_options import LoadOptions
from tasc.benchmark.options import BenchOptions, TuneOptions, VocabularyOptions
from tasc.decoding.drafters.ngram.options import IndexOptions
from tasc.options.command import StepOptions
from tasc.serving.options import ExportOptions
from tasc.training.options import BaseOptions, FinetuneOptions
from tasc.vocab.search.options import AugmentOptions

_ALL: tuple[type[StepOptions], ...] = (
    AnalyzeOptions,
    AugmentOptions,
    BaseOptions,
    FinetuneOptions,
    IndexOptions,
    VocabularyOptions,
    BenchOptions,
    LoadOptions,
    ExportOptions,
    TuneOptions,
)
COMMANDS = {kind.command: kind for kind in _ALL}
