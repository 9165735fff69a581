"""The commands as calls of the library: options in, a result in memory out.

A result has ``to_dict()``, the report, and ``save(folder)``, which writes the other files.
What a command needs is imported when it is called.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tasc.analysis.divided import outputs_by_split
from tasc.analysis.options import AnalyzeOptions
from tasc.benchmark.load_options import LoadOptions
from tasc.benchmark.options import BenchOptions, TuneOptions, VocabularyOptions
from tasc.commands.context import StepContext, at_work, to_hold_out
from tasc.data.corpus import Corpus
from tasc.data.division import TRAIN, VALIDATION
from tasc.decoding.drafters.ngram.options import IndexOptions
from tasc.errors import InputError
from tasc.options.references import resolve_model, resolve_tokenizer
from tasc.options.texts import MAIN
from tasc.serving.options import ExportOptions
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.options import BaseOptions, FinetuneOptions
from tasc.vocab.search.options import AugmentOptions

if TYPE_CHECKING:
    from tasc.benchmark.results.bench import BenchResults
    from tasc.benchmark.results.load import LoadResults
    from tasc.benchmark.results.search import Tuning
    from tasc.benchmark.vocabularies import Comparison
    from tasc.commands.analysis import TaskAnalysis
    from tasc.decoding.drafters.ngram.building import Indexed
    from tasc.serving.export import Exported
    from tasc.training.base import BaseResult
    from tasc.training.draft_head import HeadResult
    from tasc.training.finetuned import FinetuneResult, Start, TrimmedModel
    from tasc.vocab.augment import Augmentation


def analyze(options: AnalyzeOptions, context: StepContext | None = None) -> "TaskAnalysis":
    """Measure entropy and coverage of a task, predict every budget, and advise.

    Example:
        >>> found = tasc.analyze(tasc.AnalyzeOptions(source="builtin:stdlib-tokens", limit=500))
        >>> found.report.verdict.choice
        '...'
    """
    from tasc.commands import analysis

    with at_work(options, context) as context:
        return analysis.analyze(options, context)


def augment(
    options: AugmentOptions, context: StepContext | None = None
) -> "Augmentation | TrimmedModel":
    """Add the n-grams of a task's outputs to a tokenizer, and drop tokens that the task lacks.

    Example:
        >>> made = tasc.augment(
        ...     tasc.AugmentOptions(source="builtin:stdlib-tokens", tokenizer="base", new_tokens=50)
        ... )
        >>> made.save(Path("tokens"))  # a folder that AutoTokenizer loads
    """
    from tasc.models.folder.fetch import local_folder
    from tasc.models.folder.files import CONFIG
    from tasc.models.folder.vocabulary import stated
    from tasc.tokenizer.files import tokenizer_folder
    from tasc.vocab.augment import augment
    from tasc.vocab.search.embedding_cost import embedding_cost

    folder = tokenizer_folder(local_folder(options.tokenizer))
    has_model = (folder / CONFIG).is_file()
    with at_work(options, context) as context:
        corpus, validation = context.texts.corpus, context.texts.corpora.get("held_out")
        train, held_out = corpus.outputs, validation.outputs if validation else []
        if options.wanted == "auto":  # the number is chosen as tasc analyze chooses it
            missing = to_hold_out(context.texts)
            parts = outputs_by_split(corpus, missing, options.seed)
            train, held_out = parts[TRAIN], parts.get(VALIDATION, held_out)
        augmented = augment(
            corpus,
            load_tokenizer(options.tokenizer),
            options,
            train_outputs=train,
            held_out=held_out,
            rows=embedding_cost(folder),
            model_rows=stated(folder, "vocab_size") if has_model else None,
            progress=context.progress,
        )
    if augmented.tokens or not has_model:
        return augmented
    from tasc.training.finetuned import TrimmedModel

    return TrimmedModel(augmented, str(folder))


def base(options: BaseOptions, context: StepContext | None = None) -> "BaseResult":
    """Train a small base model and its tokenizer from scratch.

    Example:
        >>> made = tasc.base(
        ...     tasc.BaseOptions(source="builtin:stdlib-tokens", preset="pico", limit=500)
        ... )
        >>> made.save(Path("base"))
    """
    from tasc.training.base import train_base

    with at_work(options, context) as context:
        validation = context.texts.corpora.get("validation")
        return train_base(context.texts.corpus, validation, options, **context.kept)


def finetune(
    options: FinetuneOptions, context: StepContext | None = None
) -> "FinetuneResult | HeadResult":
    """Train LoRA on an NF4 base, with or without new tokens; or a draft head.

    Example:
        >>> made = tasc.finetune(
        ...     tasc.FinetuneOptions(
        ...         source="builtin:stdlib-tokens",
        ...         model="base",
        ...         augmented="tokens",
        ...         limit=500,
        ...         merge=True,
        ...     )
        ... )
        >>> made.save(Path("tuned"))  # the adapter, and the plain model with it merged in
    """
    _, model = resolve_model(options.model)
    with at_work(options, context) as context:
        train, validation = context.texts.corpus, context.texts.corpora.get("validation")
        if options.draft_head:
            from tasc.training.draft_head import train_head

            return train_head(model, train, validation, options, **context.kept)
        from tasc.commands.card import model_card
        from tasc.training.train import finetune

        start = _start(model, options.augmented)
        finetuned = finetune(start, train, validation, options, **context.kept)
        return replace(finetuned, card=model_card(options, finetuned, train, validation))


def _start(model: str, augmented: str | None) -> "Start":
    """Return what a training starts from: the plain model, or with the tokens of ``augmented``."""
    from tasc.training.finetuned import Start
    from tasc.vocab.exports.merges import read_merges

    if augmented is None:
        return Start(model, model)
    change = read_merges(Path(augmented))
    _check_base(model, augmented, change.kept)
    return Start(model, augmented, change.merges, change.kept)


def _check_base(model: str, augmented: str, kept_ids: Sequence[int] | None) -> None:
    """Raise InputError if an augmented tokenizer was made from another one than the model's."""
    try:
        vocabulary = load_tokenizer(model).vocabulary()
    except InputError:  # some models have none beside them
        return
    pairs = zip(
        kept_ids or range(len(vocabulary)), load_tokenizer(augmented).vocabulary(), strict=False
    )
    for old, token in pairs:
        if old < len(vocabulary) and vocabulary[old] != token:
            raise InputError(
                f"token {old} is {vocabulary[old]!r} in {model}, but {token!r} in the tokenizer "
                f"that {augmented} was made from: run tasc augment with --tokenizer {model}"
            )


def index(options: IndexOptions, context: StepContext | None = None) -> "Indexed":
    """Count the n-grams of a task's outputs, for methods to draft from.

    Example:
        >>> made = tasc.index(
        ...     tasc.IndexOptions(source="builtin:stdlib-tokens", tokenizer="tuned/model")
        ... )
        >>> made.save(Path("indexed"))  # as tasc bench --index takes it
    """
    from tasc.decoding.drafters.ngram.building import make_index

    with at_work(options, context) as context:
        stream = context.texts.stream
        assert stream is not None
        tokenizer = load_tokenizer(options.tokenizer)
        return make_index(stream, tokenizer, options, context.work, context.progress)


def bench(options: BenchOptions, context: StepContext | None = None) -> "BenchResults":
    """Measure models and methods side by side on one decoding loop.

    Example:
        >>> found = tasc.bench(
        ...     tasc.BenchOptions(source="builtin:stdlib-tokens", models=("base",), limit=20)
        ... )
        >>> [round(cell.tokens_per_step, 1) for cell in found.cells]
        [1.0, ...]
    """
    from tasc.benchmark.run import bench

    with at_work(options, context) as context:
        test = context.texts.corpus
        nothing = Corpus(test.source, options.corpus_split, examples=(), fingerprint="")
        corpus = context.texts.corpora.get("corpus_split", nothing)
        return bench(corpus, test, options, **context.kept)


def load_test(options: LoadOptions, context: StepContext | None = None) -> "LoadResults":
    """Compare outputs and speed of servers on the task's prompts.

    Example:
        >>> found = tasc.load_test(
        ...     tasc.LoadOptions(source="builtin:stdlib-tokens", endpoints=("http://[::1]:8000",))
        ... )
        >>> [cell.equal.identical for cell in found.cells]
    """
    from tasc.benchmark.load import load_test

    with at_work(options, context) as context:
        return load_test(context.texts.corpus, options, context.progress)


def export(options: ExportOptions, context: StepContext | None = None) -> "Exported":
    """Gather what an engine serves: model, tokenizer, and what drafts are made from.

    Example:
        >>> made = tasc.export(tasc.ExportOptions(model="tuned/model", to="vllm", index="indexed"))
        >>> made.save(Path("served"))  # a folder with README.md, which says how to start it
    """
    from tasc.serving.export import export

    with at_work(options, context) as context:
        return export(context.texts.corpora.get(MAIN), options)


def tune(options: TuneOptions, context: StepContext | None = None) -> "Tuning":
    """Choose TASC-spec's options by simulation on held-out outputs; no model is needed.

    Example:
        >>> found = tasc.tune(tasc.TuneOptions(source="builtin:stdlib-tokens", tokenizer="base"))
        >>> found.best.method  # as tasc bench --method takes it
        'tasc-spec...'
    """
    from tasc.benchmark.forecast.tune import tune

    tokenizer = resolve_tokenizer(options.tokenizer)
    with at_work(options, context) as context:
        corpus, held_out = context.texts.corpora["corpus_split"], context.texts.corpus
        loaded = load_tokenizer(tokenizer).ending(held_out.end)
        return tune(corpus, held_out, loaded, options, context.progress)


def compare_vocabularies(
    options: VocabularyOptions, context: StepContext | None = None
) -> "Comparison":
    """Compare two vocabularies and recommend how the one model drafts for the other.

    Example:
        >>> found = tasc.compare_vocabularies(
        ...     tasc.VocabularyOptions(target="base", draft="tuned/model")
        ... )
        >>> found.algorithm  # as tasc bench --method takes it
        '...'
    """
    from tasc.benchmark.vocabularies import compare

    with at_work(options, context) as context:
        return compare(context.texts.corpus, options, context.progress)
