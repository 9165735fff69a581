"""What each command does with its options: one call of the library, into the step's workspace."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasc.artefact import Workspace
from tasc.data.corpus import Corpus
from tasc.data.stream import Stream
from tasc.progress import Progress
from tasc.recipe.configs import (
    AnalyzeConfig,
    AugmentConfig,
    BaseConfig,
    BenchConfig,
    FinetuneConfig,
    IndexConfig,
    TuneConfig,
    VocabConfig,
)

Result = dict[str, Any]


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


def _analyze(job: Job) -> Result:
    from tasc.analysis.page import render
    from tasc.analysis.report import analyze
    from tasc.analysis.token_counts import save_counts
    from tasc.data.tokenizer import load_tokenizer
    from tasc.vocab.knee import knee

    c: AnalyzeConfig = job.config
    cost, name = None, c.tokenizer
    if c.model:
        from tasc.bench.foretell import cost_of

        cost, folder = cost_of(c.model, c.dtype, c.device)
        name = name or folder
    tokenizer = load_tokenizer(name) if name else None
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
    others = job.optional("held_out")
    best = knee(analysis, tokenizer, c.export, others) if tokenizer else None
    result = analysis.report.to_dict() | {"knee": asdict(best) if best else None, "drafting": None}
    if c.replays and tokenizer:
        from tasc.bench.foretell import foretell

        found = foretell(job.corpus, others, tokenizer, cost, progress=job.progress)
        result["drafting"] = {"model": c.model, **found}
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


WORK: dict[str, Callable[[Job], Result]] = {
    "analyze": _analyze,
    "augment": _augment,
    "base": _base,
    "finetune": _finetune,
    "index": _index,
    "vocab": _vocab,
    "bench": _bench,
    "tune": _tune,
}
