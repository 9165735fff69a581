"""How long the steps of a recipe may take here: their data counted, models of their shape timed.

An estimate is of what takes the time: forwards and training steps. Steps without a model have none.
It is rough: a model may say more or less than the data have it say, and drafts are left out of
account, which make a bench shorter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from tasc.benchmark.options import BenchOptions
from tasc.commands.context import using_threads
from tasc.data.corpus import Corpus
from tasc.data.local import is_local, split_files
from tasc.data.source import BUILTIN
from tasc.errors import TascError
from tasc.models.load import device_has_bfloat16, resolve_device
from tasc.models.probe import Probe, Shape, shape_of
from tasc.options.command import StepOptions
from tasc.options.references import parse_label, resolve_model
from tasc.options.texts import MAIN, read_texts
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.training.base import PRESETS, new_tokenizer, shape
from tasc.training.options import BaseOptions, FinetuneOptions, TrainingOptions

_Timed: TypeAlias = BaseOptions | FinetuneOptions | BenchOptions
_MOST_BYTES = 1 << 28  # of data, beyond which none are read for an estimate
_SOME = 2000  # examples that lengths are counted on, and a tokenizer is trained on
_NF4 = 5.6  # times as long a training step took with weights in 4 bits, on a CPU
_TOKENS = 1024  # of a training step that is timed; more are as many times as long
_ANSWERS = 32  # prompts that a model answers at a time for its draft head


@dataclass(frozen=True)
class _Model:
    """A model that a step makes or reads, as far as it is known before."""

    shape: Shape
    tokenizer: LoadedTokenizer

    @cached_property
    def _probes(self) -> dict[tuple[str, int | None], Probe]:
        return {}

    def probe(self, options: _Timed) -> Probe:
        """Return what times it where ``options`` would run it; within their threads."""
        where = resolve_device(options.device), options.threads
        if where not in self._probes:
            self._probes[where] = Probe(self.shape, where[0])
        return self._probes[where]


@dataclass(frozen=True)
class _Size:
    """Examples of a split, and the tokens of one on average."""

    examples: int
    prompt: float
    output: float  # with the end token

    @classmethod
    def of(cls, corpus: Corpus, tokenizer: LoadedTokenizer) -> "_Size":
        some = corpus.examples[:_SOME]

        def tokens(texts: Sequence[str]) -> float:
            return len(tokenizer.encode(texts).tokens) / len(texts)

        # A chat's roles are left out: its template may be that of a step to come.
        prompt, output = ([getattr(e, name) for e in some] for name in ("prompt", "output"))
        return cls(len(corpus.examples), tokens(prompt), tokens(output) + 1)


class Estimates:
    """Seconds of a recipe's steps, which are added in their order."""

    def __init__(self) -> None:
        """No step is known yet."""
        self._models: dict[str, _Model] = {}
        self._seconds: dict[str, float | None] = {}

    def add(self, name: str, step: StepOptions, known: float | None = None) -> float | None:
        """Return the seconds of the step ``name``; ``known`` ones where it has run before.

        None where nothing can be said: what is on the Hub is not looked at, nor are large data, nor
        models of which a layer alone is large.
        """
        try:
            model = self._model_of(name, step)
            found = known
            if found is None and model is not None and isinstance(step, _Timed) and _is_small(step):
                with using_threads(step):
                    found = self._of(step, model)
        except (TascError, OSError, ValueError):  # told of when the step runs
            found = known
        self._seconds[name] = found
        return found

    def _model_of(self, name: str, step: StepOptions) -> _Model | None:
        """Return the model that a step makes or runs, and keep it by the step's name."""
        found = None
        if isinstance(step, BaseOptions):
            found = self._new(step) if _is_small(step) else None
        elif isinstance(step, FinetuneOptions):
            found = self._known(step.model)
        elif isinstance(step, BenchOptions):
            return self._known(step.models[0])
        if found is not None:
            self._models[name] = found
        return found

    def _new(self, step: BaseOptions) -> _Model:
        corpus = read_texts(step).corpus
        tokenizer = new_tokenizer(replace(corpus, examples=corpus.examples[:_SOME]), step)
        rows = max(len(tokenizer.vocabulary()), PRESETS[step.preset].rows)
        return _Model(shape(PRESETS[step.preset], rows, step.positions), tokenizer)

    def _known(self, reference: str) -> _Model | None:
        """Return the model of an earlier step, or of a local folder."""
        path = parse_label(reference)[1]
        if path in self._models:
            return self._models[path]
        if not is_local(path):
            return None
        folder = resolve_model(reference)[1]
        return _Model(shape_of(Path(folder)), load_tokenizer(folder))

    def _of(self, step: _Timed, model: _Model) -> float | None:
        if isinstance(step, FinetuneOptions) and step.tokens_of is not None:
            return self._seconds.get(step.tokens_of)  # as many tokens take as long
        texts = read_texts(step).corpora
        sizes = {name: _Size.of(corpus, model.tokenizer) for name, corpus in texts.items()}
        probe, size = model.probe(step), sizes[MAIN]
        if isinstance(step, BenchOptions):
            return _bench(step, probe, size)
        if isinstance(step, BaseOptions):
            learning = _passes(step, sizes) * _base(step, probe, size)
            return min(learning, math.inf if step.minutes is None else 60 * step.minutes)
        learning = _passes(step, sizes) * _finetune(step, probe, size)
        if step.draft_head:
            learning += size.examples * _answer(probe, size, _ANSWERS, step.max_new_tokens)
        return learning


def _passes(step: TrainingOptions, sizes: dict[str, _Size]) -> float:
    """Return how many examples are learnt from; to be evaluated on one is a third of that."""
    size, held_out = sizes[MAIN], sizes.get("validation")
    epochs = step.epochs
    if isinstance(step, FinetuneOptions) and step.tokens is not None:
        epochs = step.tokens / (size.examples * (size.prompt + size.output))
    return (size.examples + (held_out.examples / 3 if held_out else 0)) * epochs


def _is_small(step: StepOptions) -> bool:
    """Say whether the data lie here and can be read in a moment."""
    if step.data is None or step.data.path.startswith(BUILTIN):
        return step.data is not None
    if not is_local(step.data.path):
        return False
    files = split_files(step.data.path, step.split)[0]
    return sum(file.stat().st_size for file in files) <= _MOST_BYTES


def _base(step: BaseOptions, probe: Probe, size: _Size) -> float:
    """Return the seconds of training on one example; blocks are packed full."""
    rows = min(step.batch_blocks, max(1, _TOKENS // step.block))
    fast = device_has_bfloat16(probe.device)
    seconds = probe.training_step(rows, step.block, step.block, frozen=False, bfloat16=fast)
    return seconds * (size.prompt + size.output) / (rows * step.block)


def _finetune(step: FinetuneOptions, probe: Probe, size: _Size) -> float:
    """Return the seconds of training on one example."""
    length = max(2, round(min(step.max_length, size.prompt + size.output)))
    rows = min(step.schedule().micro_batch, max(1, _TOKENS // length))
    fast = step.bf16 or (step.dtype != "float32" and device_has_bfloat16(probe.device))
    seconds = probe.training_step(
        rows, length, min(length, round(size.output)), frozen=step.adapter == "lora", bfloat16=fast
    )
    if step.quantization == "nf4" and not step.draft_head and probe.device.type == "cpu":
        seconds *= _NF4
    return seconds / rows


def _answer(probe: Probe, size: _Size, rows: int, most: int) -> float:
    """Return the seconds of one output where ``rows`` are decoded at a time."""
    prompt = probe.forward(rows, max(1, round(size.prompt)))
    return (prompt + min(most, size.output) * probe.forward(rows, 1)) / rows


def _bench(step: BenchOptions, probe: Probe, size: _Size) -> float:
    """Return the seconds of decoding every sample without drafts, as often as it is decoded."""
    outputs = size.examples * step.repeats * len(step.models) * len(step.methods)
    return outputs * _answer(probe, size, min(step.batch_size, size.examples), step.max_new_tokens)
