"""The table of commands.

Options and calls are named by their import paths, so that reading the table imports neither.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasc.errors import InputError

if TYPE_CHECKING:
    from tasc.options.command import CommandOptions, StepOptions


@dataclass(frozen=True)
class Command:
    """A command of ``tasc``, shown by the module of the same name in ``cli/commands/``."""

    name: str
    help: str
    options: str  # MODULE:CLASS, without ``tasc.``
    report: str = ""  # MODULE:CLASS of its report; empty if it cannot be a recipe's step
    files: tuple[tuple[str, str], ...] = ()  # of the artefact: (label, path), printed if present
    call: str = ""  # in ``tasc.commands.calls``, if not of the command's name

    def kind(self) -> "type[CommandOptions]":
        kind: type[CommandOptions] = _class(self.options)
        return kind

    def function(self) -> Callable[[Any, Any], Any]:
        """Import the call, which takes the options and the step's context."""
        function: Callable[[Any, Any], Any] = _class(f"commands.calls:{self.call or self.name}")
        return function

    def read_report(self, file: Path) -> Any:  # noqa: ANN401 - a class of the table
        """Read the report of an artefact. Raises InputError if it is none."""
        from pydantic import ValidationError

        try:
            return _class(self.report).model_validate_json(file.read_bytes())
        except (OSError, ValidationError):
            raise InputError(
                f"{file} is not a report of tasc {self.name} of this version: run the step again "
                "with --force"
            ) from None


def _class(path: str) -> Any:  # noqa: ANN401 - any class of the table
    module, _, name = path.partition(":")
    return getattr(import_module(f"tasc.{module}"), name)


_TABLE = (
    Command(
        "init",
        "Write a recipe for your own data, and hold out splits if the data have only one.",
        "commands.starter.options:InitOptions",
    ),
    Command(
        "data",
        "Show examples as the model sees them: tokens, loss mask, lengths, truncation.",
        "commands.inspect_data:DataOptions",
    ),
    Command(
        "analyze",
        "Measure how predictable the outputs are, predict the gain of new tokens and of drafts, "
        "and recommend a method.",
        "analysis.options:AnalyzeOptions",
        "benchmark.results.analysis:AnalysisResults",
        (("report", "analysis.html"),),
    ),
    Command(
        "augment",
        "Add frequent n-grams of the outputs to a tokenizer, or drop tokens that the task lacks.",
        "vocab.search.options:AugmentOptions",
        "vocab.report:AugmentReport",
        (("tokenizer", ""),),
    ),
    Command(
        "finetune",
        "Fine-tune with LoRA on a quantized base, or train all weights or a draft head.",
        "training.options:FinetuneOptions",
        "training.core.schedule:TrainReport",
        (("head", "head"), ("adapter", "adapter"), ("model", "model")),
    ),
    Command(
        "bench",
        "Measure speed and quality of models and methods; write results.json and report.html.",
        "benchmark.options:BenchOptions",
        "benchmark.results.bench:BenchResults",
        (("report", "report.html"),),
    ),
    Command(
        "load",
        "Compare outputs and speed of running servers on the task's prompts; write results.json.",
        "benchmark.load_options:LoadOptions",
        "benchmark.results.load:LoadResults",
        (("results", "results.json"),),
        "load_test",
    ),
    Command(
        "export",
        "Write one folder for an inference engine: model, tokenizer, drafts and README.",
        "serving.options:ExportOptions",
        "serving.export:ExportReport",
        (("how to use it", "README.md"),),
    ),
    Command(
        "tune",
        "Choose tasc-spec's options by simulation on held-out outputs, without running a model.",
        "benchmark.options:TuneOptions",
        "benchmark.results.search:Tuning",
        (("tuning", "tuning.json"),),
    ),
    Command(
        "index",
        "Save the n-gram index of the outputs for bench --index.",
        "decoding.drafters.ngram.options:IndexOptions",
        "decoding.drafters.ngram.building:IndexReport",
        (("index", ""),),
    ),
    Command(
        "vocab",
        "Compare two vocabularies and recommend how one model can draft for the other.\n\n"
        "If both folders contain a model, also measure the expected acceptance.",
        "benchmark.options:VocabularyOptions",
        "benchmark.vocabularies:Comparison",
        (("comparison", "vocabularies.json"),),
        "compare_vocabularies",
    ),
    Command(
        "base",
        "Train a small Qwen2-style model and a byte-level BPE tokenizer from scratch.",
        "training.options:BaseOptions",
        "training.core.schedule:BaseReport",
        (("model", ""),),
    ),
    Command(
        "run",
        "Run the steps of a recipe; skip the steps that are up to date.",
        "commands.plan:RunOptions",
    ),
    Command(
        "compare",
        "Compare two benches of the same samples; exit with 1 if one is worse beyond noise.",
        "benchmark.paired.compare:CompareOptions",
    ),
    Command(
        "report",
        "Join benches into one page with tests across them, or rewrite the page of one.",
        "benchmark.join:ReportOptions",
    ),
    Command(
        "serve",
        "Serve a model by the OpenAI API, or start the engine of a folder of tasc export; for this "
        "machine only.",
        "serving.options:ServeOptions",
    ),
    Command(
        "doctor",
        "Show versions, devices, kernels and memory, and the times of a model.",
        "commands.doctor:DoctorOptions",
    ),
)
COMMANDS = {command.name: command for command in _TABLE}
STEPS = {name: command for name, command in COMMANDS.items() if command.report}


def step_options(name: str) -> "type[StepOptions]":
    """Import the class of the options of a command in ``STEPS``."""
    return STEPS[name].kind()  # type: ignore[return-value]
