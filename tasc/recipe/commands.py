"""The commands by name, each with the class of its options: what a recipe's steps may be."""

from tasc.analysis.options import AnalyzeOptions
from tasc.bench.options import BenchOptions, TuneOptions, VocabularyOptions
from tasc.finetune.options import BaseOptions, FinetuneOptions
from tasc.options import StepOptions
from tasc.serving.options import ExportOptions
from tasc.spec.drafters.ngram.options import IndexOptions
from tasc.vocab.options import AugmentOptions

_ALL: tuple[type[StepOptions], ...] = (
    AnalyzeOptions,
    AugmentOptions,
    BaseOptions,
    FinetuneOptions,
    IndexOptions,
    VocabularyOptions,
    BenchOptions,
    ExportOptions,
    TuneOptions,
)
COMMANDS = {kind.command: kind for kind in _ALL}
