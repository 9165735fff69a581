"""One bench from options to results: load, run every cell, describe."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from tasc.benchmark import judge, lossless, matrix, predict, record
from tasc.benchmark.options import BenchOptions
from tasc.benchmark.paired.pairs import comparisons, pairs
from tasc.benchmark.paired.seeds import seeds, seeds_pairs
from tasc.benchmark.paired.statistics import turn_length
from tasc.benchmark.results.answers import majority, wrong_outputs
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell, Lossless
from tasc.benchmark.results.conditions import (
    GenerationDefaults,
    Sample,
    SamplingSettings,
    Settings,
    Task,
    run_facts,
)
from tasc.benchmark.spread import Bench, decode_elsewhere
from tasc.data.corpus import Corpus
from tasc.decoding.core.misfit import misfits
from tasc.decoding.loaded import Loaded
from tasc.models.folder.generation import GenerationSettings
from tasc.models.packed import is_int8
from tasc.options.references import resolve_model, trained_template, training_arguments
from tasc.progress import Progress, silent

EXAMPLES = 5


def bench(
    corpus: Corpus,
    test: Corpus,
    options: BenchOptions,
    work: Path,
    *,
    resume: bool = False,
    progress: Progress = silent,
) -> BenchResults:
    """Run all cells and describe them.

    What was measured is kept in ``work``, from which the next call of the same may ``resume``.
    """
    facts = run_facts()
    if options.minutes:  # the samples for which they suffice are a random draw
        shuffled = random.Random(options.seed).sample(test.examples, len(test.examples))
        test = replace(test, examples=tuple(shuffled))
    judging = judge.find_model(options)
    loading = Bench(corpus, test, options, torch.get_num_threads())
    cells = loading.load(progress)
    measured = matrix.Measured(work, resume=resume)
    if options.executor == "local":
        matrix.run(cells, options, measured, progress)
        test = replace(test, examples=test.examples[: len(cells[0].prompts)])
    else:
        decode_elsewhere(cells, loading, work, resume=resume, progress=progress)
        matrix.share(cells)
    rows = _described(cells, test, options, progress)
    if judging:
        rows = judge.judge(rows, test, judging, work, resume=resume, progress=progress)
    progress("comparing and predicting", 0, 0)
    models = {cell.model.label: cell.model for cell in cells}
    settings, summaries = _settings(list(models.values()), judging or options), seeds(rows)
    return BenchResults(
        task=_task(corpus, test, options),
        settings=settings,
        samples=tuple(Sample.of(e, shown=i < EXAMPLES) for i, e in enumerate(test.examples)),
        cells=rows,
        reference=lossless.references(cells, options, progress),
        comparisons=comparisons(rows, settings),
        pairs=pairs(rows, test.outputs, settings),
        seeds=summaries,
        seeds_pairs=seeds_pairs(summaries),
        prediction=predict.predict(cells, corpus, test, options, rows),
        majority=majority(
            {corpus.split: corpus.outputs, test.split: test.outputs},
            test.outputs,
            settings,
            labels=options.choices is not None,
        ),
        wrong_outputs=wrong_outputs(rows, test.outputs, settings),
        resumed_turns=measured.resumed,
        **facts,
    )


def _described(
    cells: list[matrix.Cell], test: Corpus, options: BenchOptions, progress: Progress
) -> tuple[Cell, ...]:
    """Describe the cells, and compare outputs that should be equal."""
    matches: Sequence[Lossless | None] = [None] * len(cells)
    if options.sampling is None or options.verify == "sampled":
        progress("checking that outputs are equal", 0, 0)
        matches = lossless.matches(cells, options)
    scored_by = test.outputs, options.metrics, options.delimiter
    compared = zip(cells, matches, strict=True)
    return tuple(record.describe(cell, match, *scored_by) for cell, match in compared)


def _task(corpus: Corpus, test: Corpus, options: BenchOptions) -> Task:
    pairs = Counter((example.prompt, example.output) for example in corpus.examples)
    template = options.source.template
    trained = {resolve_model(text)[0]: trained_template(text) for text in options.models}
    trainings = {resolve_model(text)[0]: training_arguments(text) for text in options.models}
    return Task(
        source=test.source.path,
        split=test.split,
        samples=len(test.examples),
        dropped=test.dropped,
        corpus_split=corpus.split,
        corpus_outputs=len(corpus.examples),
        seen=sum((example.prompt, example.output) in pairs for example in test.examples),
        corpus_repeated=sum(count for count in pairs.values() if count > 1),
        misfits=_misfits(corpus, test, options),
        template=template,
        trained_templates={
            m: value for m, value in trained.items() if value not in (None, template)
        },
        trained=tuple(model for model, value in trainings.items() if value is not None),
        with_new_tokens=tuple(
            m for m, value in trainings.items() if value and value.get("augmented")
        ),
        indexes=options.indexes,
        draft_model=options.draft_model,
    )


def _misfits(corpus: Corpus, test: Corpus, options: BenchOptions) -> tuple[str, ...]:
    constraint = options.constraint
    if constraint is None:
        return ()
    return tuple(misfits(test.outputs, constraint.written_as(corpus.outputs)))


def _settings(models: Sequence[Loaded], options: BenchOptions) -> Settings:
    model = models[0]
    sampling, device = options.sampling, model.target.device
    on_gpu = device.type == "cuda"
    dtype = next(model.target.model.parameters()).dtype
    asked = {name: getattr(options, name, None) for name in Settings.model_fields}
    measured = {
        "dtype": "int8" if is_int8(model.target.model) else str(dtype).removeprefix("torch."),
        "device": f"{device} ({torch.cuda.get_device_name(device)})" if on_gpu else str(device),
        "threads": torch.get_num_threads(),
        "sampling": sampling and SamplingSettings(**asdict(sampling), verify=options.verify),
        "turn": turn_length(options.batch_size),
        "graphs": model.target.graphs,
        "judge": options.judge_endpoint and options.judge_model,
        "compiled": options.compile,
        "generation": {
            one.label: GenerationDefaults(**asdict(one.settings))
            for one in models
            if one.settings != GenerationSettings()
        },
    }
    return Settings.model_validate(asked | measured)
