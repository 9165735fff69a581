"""``tasc analyze``: the analysis, the recommended size, simulated drafts, and the verdict."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tasc.analysis.counted import Counted
from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.report import Analysis
from tasc.analysis.report import analyze as analyze_texts
from tasc.analysis.scan import count_pieces
from tasc.analysis.token_counts import save_counts
from tasc.benchmark.forecast.advise import served_drafts, simulations_of
from tasc.benchmark.forecast.structured import predict_structured
from tasc.benchmark.forecast.tune import GRID, Simulations, search
from tasc.benchmark.forecast.verdict import decide
from tasc.benchmark.results.analysis import AnalysisResults
from tasc.benchmark.results.search import Drafting, ServedDrafts, Setting, Structured
from tasc.commands.context import StepContext
from tasc.data.source import Source
from tasc.data.stream import Stream
from tasc.decoding.core.grammar import Grammar
from tasc.errors import InputError
from tasc.models.folder.fetch import local_folder
from tasc.options.references import resolve_model
from tasc.progress import Progress
from tasc.report.record import Reported
from tasc.tokenizer.files import tokenizer_folder
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.vocab.search.embedding_cost import embedding_cost
from tasc.vocab.search.predict import Prediction, augmented_with, predict_budgets
from tasc.vocab.trim import TrimPoint, predict_trim


@dataclass(frozen=True, eq=False)
class TaskAnalysis(Reported):
    """The results of ``tasc analyze``, and the counts behind them."""

    report: AnalysisResults  # for readers
    analysis: Analysis  # of words, tokens and budgets
    tokenizer: LoadedTokenizer | None  # None if only words were analysed

    def save(self, folder: Path) -> None:
        """Write the token counts, if there is a tokenizer."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.tokenizer:
            found = self.analysis.scan
            save_counts(folder, self.tokenizer, found.input.counts, found.output.counts)


def tokens_in_use(tokenizer: LoadedTokenizer, found: Analysis, stream: Stream) -> list[int]:
    """Return the tokens that prompts and outputs use; a template may cut inputs."""
    counts = found.scan.output.counts
    if stream.source.template == Source.template:
        return np.flatnonzero(counts + found.scan.input.counts).tolist()
    used = set(np.flatnonzero(counts).tolist())
    for rows in stream.rows():
        prompts = [rows.prompt(i) for i in range(len(rows.outputs))]
        used.update(tokenizer.encode(prompts).tokens.tolist())
    return sorted(used)


def _structured(
    options: AnalyzeOptions,
    context: StepContext,
    found: Analysis,
    tokenizer: LoadedTokenizer,
    new_tokens: Prediction,
    simulations: Simulations,
) -> Structured | None:
    """Predict drafts under the constraint, also with the recommended new tokens, if any."""
    constraint, held_out = options.constraint, context.texts.corpora.get("held_out")
    if constraint is None:
        return None
    context.progress("simulate drafts under the constraint", 0, 0)
    augmented, size = None, new_tokens.recommended_size
    if size and size.budget and found.searched:
        with suppress(InputError):  # tasc augment reports why the export produces none of them
            own = augmented_with(size.budget, found.searched, tokenizer, options, context.progress)
            once = replace(found.searched, encoded=own.encode(found.searched.texts))
            again = simulations_of(replace(found, searched=once), held_out, own, simulations.cost)
            augmented = (again, Grammar(constraint, own, (own.eos_id,))) if again else None
    grammar = Grammar(constraint, tokenizer, (tokenizer.eos_id,))
    return predict_structured(simulations, grammar, augmented)


def _analyzed(
    tokenizer: LoadedTokenizer | None, options: AnalyzeOptions, context: StepContext
) -> Analysis:
    stream, counted = context.texts.stream, list[Counted]()
    if stream is not None and options.executor != "local":
        counted = count_pieces(stream, tokenizer, options, **context.kept)
    texts, progress = stream or context.texts.corpus, context.progress
    return analyze_texts(texts, tokenizer, options, counted=counted, progress=progress)


def _served(
    options: AnalyzeOptions, simulations: Simulations, progress: Progress
) -> ServedDrafts | None:
    """Predict the drafts of an engine, which are chains and begin after the prefill."""
    if not options.serve:
        return None
    runs = replace(simulations, references=replace(simulations.references, drafts_first=False))
    start, sizes = Setting(width=1, tree_size=options.chains[0]), {"tree_size": options.chains}
    return served_drafts(options.serve, search(runs, start, sizes, progress=progress))


def analyze(options: AnalyzeOptions, context: StepContext) -> TaskAnalysis:
    """Run ``tasc analyze``."""
    model = resolve_model(options.model)[1] if options.model else None
    name, cost = options.tokenizer or model, None
    tokenizer = load_tokenizer(name) if name else None
    if model:
        from tasc.benchmark.predict import cost_of

        cost = cost_of(
            model, options.dtype, options.device, None if options.tokenizer else tokenizer
        )
    found = _analyzed(tokenizer, options, context)
    new_tokens, trimmed = Prediction(), tuple[TrimPoint, ...]()
    drafts, served, structured = None, None, None
    if tokenizer:
        rows = embedding_cost(tokenizer_folder(local_folder(tokenizer.path)))
        if rows:
            used = tokens_in_use(tokenizer, found, context.texts.stream or context.texts.corpus)
            trimmed = predict_trim(rows, tokenizer, used)
        others, grid = context.texts.corpora.get("held_out"), GRID if options.grid or model else {}
        if found.searched:
            texts = others.outputs if others else ()
            new_tokens = predict_budgets(
                found.searched, tokenizer, options, texts, rows, context.progress
            )
        if simulations := simulations_of(found, others, tokenizer, cost):
            # With T(k) of the model, the default setting drafts adaptively.
            start = Setting() if cost is None else Setting(tree_size=0)
            drafts = search(simulations, start, grid, progress=context.progress)
            served = _served(options, simulations, context.progress)
            structured = _structured(options, context, found, tokenizer, new_tokens, simulations)
    results = AnalysisResults(
        **dict(found.report),
        budgets=new_tokens.budgets,
        recommended_size=new_tokens.recommended_size,
        trim=trimmed,
        drafting=Drafting(model=options.model, **dict(drafts)) if drafts else None,
        structured=structured,
        serving=served,
        verdict=decide(found.report, drafts.best if drafts else None, new_tokens),
    )
    return TaskAnalysis(results, found, tokenizer)
