"""What each command does with its options: one call of the library, into the step's workspace."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tasc.places import resolve_model
from tasc.recipe import training
from tasc.recipe.configs import (
    AnalyzeConfig,
    AugmentConfig,
    BenchConfig,
    IndexConfig,
    TuneConfig,
    VocabConfig,
)
from tasc.recipe.job import Job, Result


def _analyze(job: Job) -> Result:
    from tasc.analysis.page import render
    from tasc.analysis.report import analyze
    from tasc.analysis.token_counts import save_counts
    from tasc.bench.advise import advise, simulate_drafts
    from tasc.bench.tune import GRID
    from tasc.data.tokenizer import load_tokenizer
    from tasc.vocab.knee import knee

    c: AnalyzeConfig = job.config
    cost, name = None, c.tokenizer
    if c.model:
        from tasc.bench.predict import cost_of

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
        jobs=c.jobs,
        progress=job.progress,
    )
    best = drafts = None
    if tokenizer:
        if analysis.input_counts is not None and analysis.output_counts is not None:
            save_counts(
                job.workspace.folder, tokenizer, analysis.input_counts, analysis.output_counts
            )
        others, grid = job.optional("held_out"), GRID if c.searches else {}
        best = knee(analysis, tokenizer, c.export, others)
        drafts = simulate_drafts(
            analysis, others, tokenizer, grid, cost=cost, progress=job.progress
        )
    result = analysis.report.to_dict() | {
        "knee": asdict(best) if best else None,
        "drafting": drafts and {"model": c.model, **drafts.to_dict()},
        "verdict": asdict(advise(analysis.report, drafts)),
    }
    (job.workspace.folder / "analysis.html").write_text(render(result), encoding="utf-8")
    return result


def _augment(job: Job) -> Result:
    from tasc.data.tokenizer import load_tokenizer
    from tasc.data.tokenizer_files import tokenizer_folder
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
        rows=row_cost(tokenizer_folder(Path(c.tokenizer))),
        progress=job.progress,
    )
    augmentation.save(job.workspace.folder)
    result = augmentation.to_dict()
    page = render(result, job.corpus.source.path)
    (job.workspace.folder / "budget.html").write_text(page, encoding="utf-8")
    return result


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
        limits=Limits(c.max_new_tokens, c.repeats, c.warmup, c.batch_size, sampling, c.verify),
        graphs=c.graphs,
        compiled=c.compile,
        draft_heads=[Path(head) for head in c.draft_heads],
        token_counts=Path(c.token_counts) if c.token_counts else None,
    )
    results, examples = bench(job.corpora["corpus_split"], job.corpus, options, job.progress)
    page = render(results, examples)
    (job.workspace.folder / "report.html").write_text(page, encoding="utf-8")
    return results


def _tune(job: Job) -> Result:
    from tasc.bench.tune import tune
    from tasc.data.tokenizer import load_tokenizer

    c: TuneConfig = job.config
    tokenizer = load_tokenizer(resolve_model(c.tokenizer)[1])
    return tune(job.corpora["corpus_split"], job.corpus, tokenizer, c.budget, job.progress)


WORK: dict[str, Callable[[Job], Result]] = {
    "analyze": _analyze,
    "augment": _augment,
    "base": training.base,
    "finetune": training.finetune,
    "index": _index,
    "vocab": _vocab,
    "bench": _bench,
    "tune": _tune,
}
