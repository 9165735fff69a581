"""Every command as a step: what it reads, and how it turns that into an artefact."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasc.artefact import Step, Workspace, create, fingerprint, up_to_date, write_json
from tasc.data.corpus import Corpus, load
from tasc.data.stream import Stream, open_stream
from tasc.errors import InputError
from tasc.progress import Progress, silent
from tasc.recipe.configs import (
    AnalyzeConfig,
    AugmentConfig,
    BaseConfig,
    BenchConfig,
    FinetuneConfig,
    IndexConfig,
    ModelConfig,
    StepConfig,
    TuneConfig,
    VocabConfig,
)

Result = dict[str, Any]

_VALIDATION = 1000  # examples: enough for a loss, and not more work than the training itself


@dataclass(frozen=True)
class Outcome:
    """What a step left: its folder, its result, and whether it was there already."""

    output: Path
    result: Result
    reused: bool


def carry_out(
    config: StepConfig,
    output: Path,
    *,
    force: bool = False,
    reuse: bool = False,
    resume: bool = True,
    progress: Progress = silent,
) -> Outcome:
    """Run one step into ``output``; with ``reuse``, an artefact of the same step is left alone.

    ``resume`` continues a killed run of the very same step from its last checkpoint.
    """
    corpora, stream = _corpora(config), None
    if isinstance(config, AnalyzeConfig):
        stream = open_stream(
            config.source.source(), config.split, limit=config.limit, seed=config.seed
        )
    asked = config.model_dump(mode="json", exclude=config.incidental)
    step = Step(config.command, asked, _inputs(config, corpora, stream))
    if reuse and up_to_date(output, step):
        result = json.loads((output / config.result_file).read_text(encoding="utf-8"))
        return Outcome(output, result, reused=True)
    with create(output, step, force=force or reuse, seed=config.seed) as workspace:
        job = Job(config, corpora, workspace, resume, progress, stream)
        with _threads(config):
            result = _RUN[config.command](job)
        write_json(workspace.folder / config.result_file, result)
    return Outcome(output, result, reused=False)


@dataclass(frozen=True)
class Job:
    """A step in flight."""

    config: Any  # the config class that belongs to the command
    corpora: dict[str, Corpus]
    workspace: Workspace
    resume: bool
    progress: Progress
    stream: Stream | None = None  # the main split, where it is read in passing

    @property
    def corpus(self) -> Corpus:
        """The split the command works on."""
        return self.corpora["main"]

    def optional(self, name: str) -> Corpus | None:
        """Another split, if the command was given one and the source has it."""
        return self.corpora.get(name)


@contextmanager
def _threads(config: StepConfig) -> Iterator[None]:
    """Let torch use the step's number of CPU threads meanwhile, its own choice where None."""
    if not isinstance(config, ModelConfig) or config.threads is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _corpora(config: StepConfig) -> dict[str, Corpus]:
    """Load every split the step needs in memory. Only the main one is cut to --limit."""
    source, corpora = config.source.source(), {}
    if not isinstance(config, AnalyzeConfig):
        corpora["main"] = load(source, config.split, limit=config.limit, seed=config.seed)
    for role in ("validation", "held_out", "corpus_split"):
        split = getattr(config, role, None)
        if split is None:
            continue
        try:
            most = _VALIDATION if role == "validation" else None
            corpora[role] = load(source, split, limit=most, seed=config.seed)
        except InputError:
            if role == "corpus_split" or role in config.model_fields_set:
                raise  # asked for by name; the defaults are taken only where they exist
    return corpora


def _inputs(
    config: StepConfig, corpora: dict[str, Corpus], stream: Stream | None
) -> dict[str, str]:
    read = {name: corpus.fingerprint for name, corpus in corpora.items()}
    if stream:
        read = {"main": stream.fingerprint, **read}
    inputs = {"source": " ".join(f"{name}={held}" for name, held in read.items())}
    for name in config.references:
        value = getattr(config, name)
        listed = value if isinstance(value, tuple) else (value,)
        inputs[name] = " ".join(_identify(text) for text in listed if text is not None)
    return inputs


def _identify(text: str) -> str:
    """Name what a reference holds: label and contents of a folder, or the Hub id itself."""
    label, found, path = text.rpartition("=")
    folder = Path(path)
    return f"{label}{found}{fingerprint(folder) if folder.exists() else path}"


def _analyze(job: Job) -> Result:
    from tasc.analysis.page import render
    from tasc.analysis.report import analyze
    from tasc.analysis.token_counts import save_counts
    from tasc.data.tokenizer import load_tokenizer

    c: AnalyzeConfig = job.config
    tokenizer = load_tokenizer(c.tokenizer) if c.tokenizer else None
    analysis = analyze(
        job.stream or job.corpus,
        tokenizer,
        budgets=c.budgets,
        n_max=c.n_max,
        alpha_pcs=c.pcs,
        export=c.export,
        held_out=job.optional("held_out"),
        jobs=c.jobs,
        progress=job.progress,
    )
    if tokenizer and analysis.input_counts is not None and analysis.output_counts is not None:
        save_counts(job.workspace.folder, tokenizer, analysis.input_counts, analysis.output_counts)
    result = analysis.report.to_dict()
    (job.workspace.folder / "analysis.html").write_text(render(result), encoding="utf-8")
    return result


def _augment(job: Job) -> Result:
    from tasc.data.tokenizer import load_tokenizer
    from tasc.vocab.augment import AugmentOptions, augment
    from tasc.vocab.page import render
    from tasc.vocab.rows import row_cost

    c: AugmentConfig = job.config
    held_out = job.optional("held_out")
    tokenizer = load_tokenizer(c.tokenizer)
    options = AugmentOptions(
        budget=c.budget,
        n_max=c.n_max,
        pcs=c.pcs,
        conditional=c.conditional,
        export=c.export,
        min_gain=c.min_gain,
        protect=c.protect,
        risk_price=c.risk_price,
    )
    augmentation = augment(
        job.corpus,
        tokenizer,
        options,
        held_out=held_out.outputs if held_out else (),
        rows=row_cost(Path(c.tokenizer), len(tokenizer.vocabulary())),
        progress=job.progress,
    )
    augmentation.save(job.workspace.folder)
    result = augmentation.to_dict()
    page = render(result, job.corpus.source.path)
    (job.workspace.folder / "budget.html").write_text(page, encoding="utf-8")
    return result


def _base(job: Job) -> Result:
    from tasc.finetune.base import BaseOptions, train_base

    c: BaseConfig = job.config
    options = BaseOptions(
        preset=c.preset,
        tokenizer=c.tokenizer,
        vocabulary=c.vocabulary,
        tokenizer_text=c.tokenizer_text,
        epochs=c.epochs,
        minutes=c.minutes,
        learning_rate=c.learning_rate,
        block=c.block,
        seed=c.seed,
    )
    result = train_base(
        job.corpus,
        job.optional("validation"),
        options,
        work=job.workspace.work,
        resume=job.resume,
        progress=job.progress,
    )
    result.save(job.workspace.folder)
    return result.report.to_dict()


def _finetune(job: Job) -> Result:
    from tasc.bench.run import resolve_model
    from tasc.finetune.train import TrainOptions, finetune
    from tasc.vocab.merges import read_merges

    c: FinetuneConfig = job.config
    _, model = resolve_model(c.model)
    if c.draft_head:
        return _draft_head(job, model)
    options = TrainOptions(
        epochs=c.epochs,
        learning_rate=c.learning_rate or TrainOptions.learning_rate,
        row_learning_rate=c.row_learning_rate,
        warmup_steps=c.warmup_steps,
        batch_size=c.batch_size,
        effective_batch=c.effective_batch or TrainOptions.effective_batch,
        max_length=c.max_length,
        quantize=c.quantize,
        device=c.device,
        seed=c.seed,
    )
    result = finetune(
        model,
        c.augmented or model,
        read_merges(Path(c.augmented)) if c.augmented else (),
        job.corpus,
        job.optional("validation"),
        options,
        work=job.workspace.work,
        resume=job.resume,
        progress=job.progress,
    )
    result.save_adapter(job.workspace.folder / "adapter")
    if c.merge:
        result.save_merged(job.workspace.folder / "model")
    return result.report.to_dict()


def _draft_head(job: Job, model: str) -> Result:
    from tasc.finetune.draft_head import HeadOptions, train_head

    c: FinetuneConfig = job.config
    options = HeadOptions(
        epochs=c.epochs,
        learning_rate=c.learning_rate or HeadOptions.learning_rate,
        batch_size=c.batch_size,
        effective_batch=c.effective_batch or HeadOptions.effective_batch,
        max_length=c.max_length,
        max_new_tokens=c.max_new_tokens,
        repetition_penalty=c.repetition_penalty,
        device=c.device,
        seed=c.seed,
    )
    result = train_head(
        model,
        job.corpus,
        job.optional("validation"),
        options,
        work=job.workspace.work,
        resume=job.resume,
        progress=job.progress,
    )
    result.save(job.workspace.folder / "head")
    return result.report.to_dict()


def _index(job: Job) -> Result:
    from tasc.data.tokenizer import load_tokenizer
    from tasc.spec.index import IndexOptions, make_index

    c: IndexConfig = job.config
    options = IndexOptions(c.n_max, c.p_min, c.discount, c.strength, c.mark)
    return make_index(job.corpus, load_tokenizer(c.tokenizer), options, job.workspace.folder)


def _vocab(job: Job) -> Result:
    from tasc.bench.vocabularies import compare

    c: VocabConfig = job.config
    return compare(
        job.corpus,
        c.target,
        c.draft,
        prompts=c.prompts,
        places=c.places,
        temperature=c.temperature,
        progress=job.progress,
    )


def _bench(job: Job) -> Result:
    from tasc.bench.matrix import Limits
    from tasc.bench.report import render
    from tasc.bench.run import BenchOptions, bench
    from tasc.spec.sampling import Sampling

    c: BenchConfig = job.config
    sampling = None
    if c.temperature is not None:
        sampling = Sampling(c.temperature, c.top_k, c.top_p, c.seed)
    options = BenchOptions(
        models=c.models,
        methods=c.methods,
        indexes=c.indexes,
        draft_model=c.draft_model,
        metrics=c.metrics,
        delimiter=c.delimiter,
        dtype=c.dtype,
        device=c.device,
        limits=Limits(c.max_new_tokens, c.repeats, c.warmup, c.batch_size, sampling),
        graphs=c.graphs,
        compiled=c.compile,
        draft_head=Path(c.draft_head) if c.draft_head else None,
        token_counts=Path(c.token_counts) if c.token_counts else None,
    )
    results, examples = bench(job.corpora["corpus_split"], job.corpus, options, job.progress)
    page = render(results, examples)
    (job.workspace.folder / "report.html").write_text(page, encoding="utf-8")
    return results


def _tune(job: Job) -> Result:
    from tasc.bench.run import resolve_model
    from tasc.bench.tune import tune
    from tasc.data.tokenizer import load_tokenizer

    c: TuneConfig = job.config
    tokenizer = load_tokenizer(resolve_model(c.tokenizer)[1])
    return tune(job.corpora["corpus_split"], job.corpus, tokenizer, c.budget, job.progress)


_RUN: dict[str, Callable[[Job], Result]] = {
    "analyze": _analyze,
    "augment": _augment,
    "base": _base,
    "finetune": _finetune,
    "index": _index,
    "vocab": _vocab,
    "bench": _bench,
    "tune": _tune,
}
