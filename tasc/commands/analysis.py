"""``tasc analyze``: the analysis, the recommended size, simulated drafts, and the verdict."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tasc.analysis.counted import Counted
from tasc.analysis.divided import divide_outputs
from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.outputs import Outputs
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
from tasc.commands.context import StepContext, to_hold_out
from tasc.data.corpus import Corpus
from tasc.data.source import Source
from tasc.data.stream import Stream
from tasc.decoding.core.grammar import Grammar
from tasc.errors import InputError
from tasc.models.cost_model import CostModel
from tasc.models.folder.fetch import local_folder
from tasc.options.constraint import Constraint
from tasc.options.references import resolve_model
from tasc.report.record import Reported
from tasc.tokenizer.files import tokenizer_folder
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.vocab.search.embedding_cost import EmbeddingCost, embedding_cost
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
            scan = self.analysis.scan
            save_counts(folder, self.tokenizer, scan.input.counts, scan.output.counts)


def tokens_in_use(tokenizer: LoadedTokenizer, analysis: Analysis, stream: Stream) -> list[int]:
    """Return the tokens that prompts and outputs use; a template may cut inputs."""
    counts = analysis.scan.output.counts
    if stream.source.template == Source.template:
        return np.flatnonzero(counts + analysis.scan.input.counts).tolist()
    used = set(np.flatnonzero(counts).tolist())
    for rows in stream.rows():
        prompts = [rows.prompt(i) for i in range(len(rows.outputs))]
        used.update(tokenizer.encode(prompts).tokens.tolist())
    return sorted(used)


@dataclass(frozen=True, eq=False)
class _Forecast:
    """What the texts of an analysis predict for a tokenizer and, with T(k), for a model."""

    options: AnalyzeOptions
    context: StepContext
    analysis: Analysis
    tokenizer: LoadedTokenizer
    cost: CostModel | None

    @cached_property
    def divided(self) -> tuple[Outputs | None, Corpus | None]:
        """The outputs to choose from, and the rows to judge the choice on, if there are any."""
        texts = self.context.texts
        names, held_out = to_hold_out(texts), texts.corpora.get("held_out")
        if not names:
            return self.analysis.searched, held_out
        self.context.progress("hold out examples", 0, 0)
        parts = divide_outputs(texts.stream or texts.corpus, names, self.options.seed)
        train = Outputs.encode(parts.train, self.tokenizer, self.options.export)
        return train, held_out or parts.held_out

    @property
    def train(self) -> Outputs | None:
        return self.divided[0]

    @property
    def held_out(self) -> Corpus | None:
        return self.divided[1]

    @cached_property
    def rows(self) -> EmbeddingCost | None:
        return embedding_cost(tokenizer_folder(local_folder(self.tokenizer.path)))

    @cached_property
    def new_tokens(self) -> Prediction:
        """Predictions for several numbers of new tokens, and the recommended one."""
        searched = self.analysis.searched
        if not searched:
            return Prediction()
        held_out = self.held_out.outputs if self.held_out else ()
        train = None if self.train is searched else self.train
        return predict_budgets(
            searched,
            self.tokenizer,
            self.options,
            held_out,
            self.rows,
            self.context.progress,
            train,
        )

    def trim(self) -> tuple[TrimPoint, ...]:
        """Predict a smaller vocabulary; nothing for a tokenizer without a model."""
        if not self.rows:
            return ()
        texts = self.context.texts
        used = tokens_in_use(self.tokenizer, self.analysis, texts.stream or texts.corpus)
        return predict_trim(self.rows, self.tokenizer, used)

    def drafts(self) -> dict[str, Any]:
        """Simulate drafts on held-out outputs: fields of the report, None without any."""
        train, simulations = self.train, None
        if train:
            simulations = simulations_of(train, self.held_out, self.tokenizer, self.cost)
        if simulations is None:
            return {"drafting": None, "serving": None}
        grid = GRID if self.options.grid or self.options.model else {}
        # With T(k) of the model, the default setting drafts adaptively.
        start = Setting() if self.cost is None else Setting(tree_size=0)
        settings = search(simulations, start, grid, progress=self.context.progress)
        return {
            "drafting": Drafting(model=self.options.model, **dict(settings)),
            "serving": self._served(simulations),
            "structured": self._structured(simulations),
        }

    def _served(self, simulations: Simulations) -> ServedDrafts | None:
        """Predict the drafts of an engine, which are chains and begin after the prefill."""
        engine, chains = self.options.serve, self.options.chains
        if not engine:
            return None
        references = replace(simulations.references, drafts_first=False)
        runs = replace(simulations, references=references)
        start, grid = Setting(width=1, tree_size=chains[0]), {"tree_size": chains}
        return served_drafts(engine, search(runs, start, grid, progress=self.context.progress))

    def _structured(self, simulations: Simulations) -> Structured | None:
        """Predict drafts under the constraint, also with the recommended new tokens, if any."""
        constraint = self.options.constraint
        if constraint is None:
            return None
        self.context.progress("simulate drafts under the constraint", 0, 0)
        constraint = constraint.written_as(self._known_outputs())
        augmented = None
        with suppress(InputError):  # tasc augment reports why the export produces none of them
            augmented = self._augmented(constraint)
        grammar = Grammar(constraint, self.tokenizer, (self.tokenizer.eos_id,))
        return predict_structured(simulations, grammar, augmented)

    def _known_outputs(self) -> list[str]:
        """Return outputs that show how the task writes JSON."""
        corpora = self.context.texts.corpora
        corpus = corpora.get("main") or self.held_out
        return list(corpus.outputs) if corpus else []

    def _augmented(self, constraint: Constraint) -> tuple[Simulations, Grammar] | None:
        """Return the simulations and the grammar with the recommended new tokens, if any."""
        size, train = self.new_tokens.recommended_size, self.train
        if not size or not size.budget or not train:
            return None
        progress = self.context.progress
        augmented = augmented_with(size.budget, train, self.tokenizer, self.options, progress)
        outputs = replace(train, encoded=augmented.encode(train.texts))
        simulations = simulations_of(outputs, self.held_out, augmented, self.cost)
        if simulations is None:
            return None
        return simulations, Grammar(constraint, augmented, (augmented.eos_id,))


def _analyzed(
    tokenizer: LoadedTokenizer | None, options: AnalyzeOptions, context: StepContext
) -> Analysis:
    stream, counted = context.texts.stream, list[Counted]()
    if stream is not None and options.executor != "local":
        counted = count_pieces(stream, tokenizer, options, **context.kept)
    texts, progress = stream or context.texts.corpus, context.progress
    return analyze_texts(texts, tokenizer, options, counted=counted, progress=progress)


def analyze(options: AnalyzeOptions, context: StepContext) -> TaskAnalysis:
    """Run ``tasc analyze``."""
    model = resolve_model(options.model)[1] if options.model else None
    name, cost = options.tokenizer or model, None
    tokenizer = load_tokenizer(name) if name else None
    if model:
        from tasc.benchmark.predict import cost_of

        model_tokenizer = None if options.tokenizer else tokenizer
        cost = cost_of(model, options.dtype, options.device, model_tokenizer)
    analysis = _analyzed(tokenizer, options, context)
    new_tokens, drafts = Prediction(), dict[str, Any](trim=(), drafting=None, serving=None)
    if tokenizer:
        forecast = _Forecast(options, context, analysis, tokenizer, cost)
        trimmed, new_tokens = forecast.trim(), forecast.new_tokens
        drafts = {"trim": trimmed} | forecast.drafts()
    best = drafts["drafting"].best if drafts["drafting"] else None
    results = AnalysisResults(
        **dict(analysis.report),
        budgets=new_tokens.budgets,
        recommended_size=new_tokens.recommended_size,
        **drafts,
        verdict=decide(analysis.report, best, new_tokens),
    )
    return TaskAnalysis(results, analysis, tokenizer)
