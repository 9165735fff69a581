"""Estimates of the time and the peak memory of a recipe's steps on this machine.

Training steps and forwards of each model are measured for seconds, in processor time; numbers of
examples and tokens are counted. A model that is not on this machine is not estimated.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tasc.analysis.options import AnalyzeOptions
from tasc.benchmark.options import BenchOptions
from tasc.benchmark.results.analysis import AnalysisResults
from tasc.commands.context import using_threads
from tasc.commands.lengths import spread_evenly, token_lengths, with_chat_template
from tasc.commands.measure import (
    DecodingCost,
    TrainingCost,
    measure_decoding,
    measure_training,
)
from tasc.commands.plan import Plan
from tasc.commands.trimmed import make_trimmed
from tasc.data.corpus import load
from tasc.decoding.drafters import parse
from tasc.decoding.drafters.ngram.options import IndexOptions
from tasc.errors import TascError
from tasc.files.packaged import is_here
from tasc.files.scratch import scratch
from tasc.options.command import StepOptions
from tasc.options.references import resolve_model
from tasc.options.texts import MAIN, Texts, read_texts
from tasc.progress import Progress, silent
from tasc.report.record import Record
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.options import BaseOptions, FinetuneOptions
from tasc.vocab.search.options import AugmentOptions

if TYPE_CHECKING:
    from tasc.training.speed import TrainingSpeed

_RUNTIME = 500 * 2**20  # bytes of Python and its libraries
_LARGEST = 10**9  # parameters of models that are measured on a CPU
_LARGEST_NEW = 10**8  # of those that a recipe trains from scratch
_COMMITTED = 2.0  # assumed tokens per step with drafts, without an analysis
_FORWARD = 0.4  # of a training step: the forward alone
_CHECKED = 10  # outputs that a bench decodes again per model, to compare them
_MEASURING = 5.0  # seconds in which a bench measures T(k) of a model
_STARTING = 5.0  # seconds of importing libraries and writing the adapter
_TEXT_SECONDS, _PER_MEGABYTE = 2.0, 1.0  # of steps that read texts alone
_TRANSIENT = 1.15  # memory at its peak over what a step holds


class StepEstimate(Record):
    """The estimated cost of a step on this machine, without other work on it."""

    seconds: float | None
    """None if the step was not estimated."""
    memory: int | None
    """Peak bytes of the process and, on a GPU, of the device; None if not estimated."""
    basis: str
    """What was measured and assumed, or why the step was not estimated."""


class _NotEstimatedError(Exception):
    """Why a step has no estimate."""


@dataclass(frozen=True)
class _Lengths:
    """The tokens of a step's examples."""

    prompts: np.ndarray  # (N,) of examples, perhaps a sample
    outputs: np.ndarray  # (N,) with end tokens
    count: int  # of all examples

    def capped(self, longest: int) -> np.ndarray:
        """Return the tokens (N,) of examples that are cut to ``longest``."""
        tokens: np.ndarray = np.minimum(self.prompts + self.outputs, longest)
        return tokens


@dataclass(frozen=True)
class MadeAnalysis:
    """An analysis of a recipe that could be made before it runs, and its processor time."""

    results: AnalysisResults
    seconds: float


def estimate_steps(
    plan: Plan,
    analyses: Mapping[str, MadeAnalysis],
    progress: Progress = silent,
    trimmed: Mapping[str, Path] | None = None,
) -> dict[str, StepEstimate]:
    """Estimate the steps of ``plan`` by name.

    ``analyses`` and the folders of ``trimmed`` models are those that were made before.
    """
    with scratch() as folder:
        estimator = _Estimator(plan, folder, analyses, progress, dict(trimmed or {}))
        return {name: estimator.of(name) for name in plan.steps}


@dataclass
class _Estimator:
    """Estimates the steps of a plan, and measures each of its models once.

    Models that the recipe trains from scratch are replaced by new ones of the same shape in
    ``folder``.
    """

    plan: Plan
    folder: Path
    analyses: Mapping[str, MadeAnalysis]
    progress: Progress
    trimmed: dict[str, Path]
    _read: dict[tuple[str, str], Texts] = field(default_factory=dict)
    _trained_tokens: dict[str, float] = field(default_factory=dict)  # by step
    _trainings: dict[tuple[object, ...], TrainingCost] = field(default_factory=dict)
    _decodings: dict[tuple[object, ...], DecodingCost] = field(default_factory=dict)

    def of(self, name: str) -> StepEstimate:
        """Estimate one step; the steps that it needs must have been estimated before."""
        step = self.plan.steps[name]
        try:
            with using_threads(step):
                return self._estimate(name, step)
        except (_NotEstimatedError, TascError) as reason:
            return StepEstimate(seconds=None, memory=None, basis=f"not estimated: {reason}")

    def _estimate(self, name: str, step: StepOptions) -> StepEstimate:
        match step:
            case AnalyzeOptions() if name in self.analyses:
                return _estimate(self.analyses[name].seconds, _RUNTIME, "as the analysis made now")
            case AnalyzeOptions(model=None) | AugmentOptions() | IndexOptions():
                return self._of_texts(step)
            case BaseOptions():
                return self._of_base(name, step)
            case FinetuneOptions():
                return self._of_training(name, step)
            case BenchOptions():
                return self._of_bench(step)
        raise _NotEstimatedError(f"steps of tasc {step.command}")

    def _of_texts(self, step: StepOptions) -> StepEstimate:
        if step.data is None:
            raise _NotEstimatedError(f"steps of tasc {step.command} without data")
        size = Path(step.data.path).stat().st_size if Path(step.data.path).is_file() else None
        if size is None:
            corpus = load(step.data.source(), step.split, limit=step.limit, seed=step.seed)
            size = sum(len(text) for column in (corpus.prompts, corpus.outputs) for text in column)
        seconds = _TEXT_SECONDS + _PER_MEGABYTE * size / 1e6
        return _estimate(seconds, _RUNTIME, "a rough estimate, by the size of the texts")

    def _of_base(self, name: str, step: BaseOptions) -> StepEstimate:
        model = self._model(name)
        tokens = self._lengths(step, MAIN, model).capped(step.positions)
        held_out = self._lengths(step, "validation", model)
        read = self._training(name, step)
        total = float(tokens.mean()) * self._lengths(step, MAIN, model).count
        steps = step.schedule().steps(math.ceil(total / step.block))
        trained = step.epochs * total * read.speed.token + steps * read.speed.update
        limit = 60 * step.minutes if step.minutes else math.inf
        validated = self._validation(held_out, min(1, limit / trained), read)
        basis = f"measured training steps of a new model of this shape, {steps:,} in all"
        if trained + validated > limit:
            basis = f"minutes: {step.minutes:g}"
        seconds = read.load + min(trained + validated, limit)
        memory = _RUNTIME + _training_memory(read.speed, step.block * step.batch_blocks, best=False)
        return _estimate(seconds, memory, basis)

    def _of_training(self, name: str, step: FinetuneOptions) -> StepEstimate:
        if step.draft_head or step.processes > 1:
            what = "draft heads" if step.draft_head else "training in several processes"
            raise _NotEstimatedError(what)
        model, read = self._model(step.model), self._training(step.model, step)
        lengths = self._lengths(step, MAIN, model)
        shorter = self._step_ratio(step.augmented)
        tokens = np.minimum(lengths.prompts + lengths.outputs / shorter, step.max_length)
        epoch = float(tokens.mean()) * lengths.count
        wanted: float | None = step.tokens
        if step.tokens_of in self._trained_tokens:
            wanted = self._trained_tokens[step.tokens_of]
        elif step.tokens_of:
            raise _NotEstimatedError(f"the number of tokens of {step.tokens_of} is not known")
        epochs = step.epochs if wanted is None else wanted / epoch
        self._trained_tokens[name] = epochs * epoch
        steps = max(1, round(step.schedule().epoch_steps(lengths.count) * epochs))
        seconds = epochs * epoch * read.speed.token + steps * read.speed.update
        seconds += self._validation(self._lengths(step, "validation", model), epochs, read)
        seconds += _STARTING + read.load * (3 if step.merge else 1)  # merging loads and saves
        widest = int(np.sort(tokens)[-step.batch_size :].max()) * step.batch_size
        best = step.patience is not None
        memory = _RUNTIME + _training_memory(read.speed, widest, best=best)
        if step.merge:
            memory = max(memory, _RUNTIME + 2 * read.speed.weights + read.speed.trained)
        basis = (
            f"measured training steps of {self._described(model)}: {read.speed.example:.2g} s per "
            f"example, {epochs:.3g} epochs of {lengths.count:,} examples"
        )
        return _estimate(seconds, memory, basis)

    def _of_bench(self, step: BenchOptions) -> StepEstimate:
        if step.executor != "local" or step.batch_size > 1 or step.judge_endpoint:
            raise _NotEstimatedError("benches in batches, with an executor or with a judge")
        decode, other, memory = 0.0, 0.0, _RUNTIME
        for text in step.models:
            reference = resolve_model(text)[1]
            model = self._model(reference)
            lengths = self._lengths(step, MAIN, model)
            read = self._decoding(reference, step)
            shorter = self._step_ratio(self._augmented(reference))
            tokens = min(float(lengths.outputs.mean()) / shorter, step.max_new_tokens)
            prefill = float(lengths.prompts.mean()) * read.prompt_token
            count = lengths.count * step.repeats + min(step.warmup, lengths.count)
            for label in step.methods:
                method = parse(label)
                if method.chooses:
                    each = prefill + read.tree
                elif method.name == "ar":
                    each = prefill + tokens * read.token
                else:
                    each = prefill + tokens / self._committed() * read.tree
                decode += count * each
            other += read.load + _MEASURING + _CHECKED * (prefill + tokens * read.token)
            memory += read.memory
        if step.minutes:
            decode = min(decode, 60 * step.minutes)
        basis = (
            "measured forwards of the models, for outputs as long as the references; "
            f"{self._committed():.3g} tokens per step with drafts"
        )
        return _estimate(decode + other, round(_TRANSIENT * memory), basis)

    def _validation(self, held_out: _Lengths, epochs: float, read: TrainingCost) -> float:
        """Return the seconds of evaluations after each epoch."""
        if not held_out.count:
            return 0.0
        tokens = float((held_out.prompts + held_out.outputs).mean()) * held_out.count
        return math.ceil(epochs) * tokens * _FORWARD * read.speed.token

    def _committed(self) -> float:
        """Return the tokens per step with drafts, as an analysis simulated them or as assumed."""
        for analysis in self.analyses.values():
            if analysis.results.drafting:
                return analysis.results.drafting.best.tokens_per_step
        return _COMMITTED

    def _step_ratio(self, augmented: str | None) -> float:
        """Return by which factor new tokens shorten outputs, as an analysis predicts it."""
        step = self.plan.steps.get(augmented or "")
        if not isinstance(step, AugmentOptions):
            return 1.0
        for analysis in self.analyses.values():
            size, tokens = analysis.results.recommended_size, analysis.results.tokens
            if step.wanted == "auto" and size and size.budget and tokens:
                steps = size.held_out_steps or size.train_steps
                return max(1.0, (tokens.output.tokens_per_sample + 1) / steps)
        return 1.0

    def _described(self, model: str) -> str:
        return "a new model of this shape" if Path(model).parent == self.folder else model

    def _augmented(self, reference: str) -> str | None:
        step = self.plan.steps.get(reference)
        return step.augmented if isinstance(step, FinetuneOptions) else None

    def _model(self, reference: str) -> str:
        """Return the local path of the model from which a step's model comes.

        Raises _NotEstimatedError if it is not on this machine, or too large to be measured.
        """
        step = self.plan.steps.get(reference)
        if isinstance(step, FinetuneOptions):
            return self._model(step.model)
        if isinstance(step, BaseOptions):
            return self._new_model(reference, step)
        if isinstance(step, AugmentOptions):
            return self._trimmed_model(reference, step)
        path = resolve_model(reference)[1]
        if not is_here(path):
            raise _NotEstimatedError("the model is not here yet")
        import torch

        from tasc.models.folder.fetch import local_folder
        from tasc.models.folder.files import count_parameters

        parameters = count_parameters(local_folder(path))
        if parameters > _LARGEST and not torch.cuda.is_available():
            size = f"{parameters / 1e9:.2g} B parameters"
            raise _NotEstimatedError(f"a model of {size} is too large to try")
        return path

    def _new_model(self, name: str, step: BaseOptions) -> str:
        """Return a folder with a new model of a step's shape, and a tokenizer of its examples."""
        folder = self.folder / name
        if folder.exists():
            return str(folder)
        from tasc.training.base import PRESETS, build, new_tokenizer
        from tasc.training.folder import save_model

        preset = PRESETS[step.preset]
        rows = max(step.vocabulary or preset.vocabulary, preset.rows)
        if preset.layers * 12 * preset.hidden**2 + rows * preset.hidden > _LARGEST_NEW:
            raise _NotEstimatedError(f"a model of the preset {step.preset} is too large to try")
        self.progress("train a tokenizer to estimate", 0, 0)
        tokenizer = new_tokenizer(spread_evenly(self._texts(step).corpus), step)
        rows = max(rows, len(tokenizer.vocabulary()))
        model = build(preset, rows, step.positions, step.seed, end=tokenizer.eos_id)
        save_model(model, tokenizer, folder)
        return str(folder)

    def _trimmed_model(self, name: str, step: AugmentOptions) -> str:
        """Return a folder with the model that a step trims, before any training of it."""
        if name not in self.trimmed:
            model = self._model(step.tokenizer)
            self.progress("trim a model to estimate", 0, 0)
            texts = with_chat_template(self._texts(step).corpus, load_tokenizer(model))
            self.trimmed[name] = make_trimmed(model, texts, step.rows, self.folder / name)
        return str(self.trimmed[name])

    def _texts(self, step: StepOptions) -> Texts:
        """Read the splits of a step, once for all steps that read the same."""
        splits = {"source", "split", "limit", "seed", *step.spec.other_splits}
        key = step.command, step.model_dump_json(include=splits)
        if key not in self._read:
            self._read[key] = read_texts(step)
        return self._read[key]

    def _lengths(self, step: StepOptions, split: str, model: str) -> _Lengths:
        """Count tokens of the examples of ``split``, MAIN or a field; none if it does not exist."""
        corpus = self._texts(step).corpora.get(split)
        if corpus is None or not corpus.examples:
            return _Lengths(np.zeros(0), np.zeros(0), 0)
        tokenizer = load_tokenizer(model)
        some = with_chat_template(spread_evenly(corpus), tokenizer)
        return _Lengths(*token_lengths(some, tokenizer), len(corpus.examples))

    def _training(self, reference: str, step: BaseOptions | FinetuneOptions) -> TrainingCost:
        """Measure a few training steps of a model, as ``step`` trains it."""
        model = self._model(reference)
        kind: tuple[object, ...] = ()
        if isinstance(step, FinetuneOptions):
            longest, size = step.max_length, step.batch_size
            kind = step.adapter, step.quantization, step.rank, step.trained_rows
        else:
            longest, size = step.positions, None  # packed examples fill any batch
        key = (model, step.threads, kind, step.source, step.split, longest, size)
        if key not in self._trainings:
            self.progress("measure training", 0, 0)
            tokenizer = load_tokenizer(model)
            some = with_chat_template(spread_evenly(self._texts(step).corpus), tokenizer)
            self._trainings[key] = measure_training(model, tokenizer, some, step, longest, size)
        return self._trainings[key]

    def _decoding(self, reference: str, step: BenchOptions) -> DecodingCost:
        """Measure forwards of a model, as ``step`` decodes."""
        model = self._model(reference)
        key = (model, step.threads, step.dtype, step.device)
        if key not in self._decodings:
            self.progress("measure decoding", 0, 0)
            prompt = int(self._lengths(step, MAIN, model).prompts.mean())
            self._decodings[key] = measure_decoding(model, step, max(prompt, 1))
        return self._decodings[key]


def _estimate(seconds: float, memory: float, basis: str) -> StepEstimate:
    return StepEstimate(seconds=seconds, memory=round(memory), basis=basis)


def _training_memory(speed: "TrainingSpeed", tokens: int, *, best: bool) -> float:
    """Return bytes: weights, gradients, both moments of Adam, kept weights, and activations."""
    optimizer = (4 if best else 3) * speed.trained
    return _TRANSIENT * (speed.weights + optimizer + tokens * speed.saved)
