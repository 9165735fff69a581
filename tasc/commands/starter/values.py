"""The values of a recipe and its task file: computed from the data, the model and an analysis."""

import math
import os
import re
import shlex
import time
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any

from tasc.analysis.options import AnalyzeOptions
from tasc.benchmark.results.analysis import AnalysisResults
from tasc.commands.advice import SUGGESTED
from tasc.commands.calls import analyze
from tasc.commands.estimate import MadeAnalysis
from tasc.commands.starter.data import OwnData
from tasc.commands.starter.fit import Fit, fit, within
from tasc.commands.starter.infer import Inferred
from tasc.commands.starter.model import parameters_of, tokenizer_of
from tasc.commands.starter.options import InitOptions
from tasc.commands.starter.prompts import BARE, ChosenPrompt
from tasc.commands.starter.render import as_yaml
from tasc.commands.trimmed import TrimmedModel
from tasc.data.corpus import Corpus
from tasc.data.local import is_local
from tasc.errors import InputError
from tasc.options.task import Task
from tasc.progress import Progress
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.loaded import load_tokenizer
from tasc.visible import visible_line
from tasc.vocab.exports.export import supported_export

_LABEL = re.compile(r"\s*[A-Za-z0-9]{1,16}\s*")  # a short word: one token or two
_SHORT_WORDS = "Every output is one short word: TASC-ft has nothing to shorten."
_VALIDATED = 1000  # validation examples at most
_FIRST_TRY = 200  # examples of a first try: at most half of those to train on


def task_values(
    options: InitOptions,
    data: OwnData,
    corpus: Corpus | None,
    inferred: Inferred | None,
    prompt: ChosenPrompt | None,
) -> dict[str, Any]:
    """Return the values of both files that follow from the data: YAML, and lines of comments.

    ``corpus`` has the training examples with the chosen prompt.
    """
    look_with = options.model or f"tasc-out/{Path(options.recipe).stem}/base"
    look = ["tasc", "data", str(options.task), "--tokenizer", look_with]
    tokenizer, model = tokenizer_of(options.model), _recipe_model(options)
    keys = _source_keys(options, data, inferred) | _prompt_keys(data, prompt)
    return {
        "look": visible_line(shlex.join(look)),
        "task": as_yaml(os.path.relpath(options.task.resolve(), options.folder.resolve())),
        "path": as_yaml(keys["path"]),
        "data": {name: as_yaml(value) for name, value in keys.items() if name != "path"},
        "name": as_yaml(data.name),
        "about": visible_line(options.source.path),
        "file": visible_line(shlex.quote(options.recipe)),
        "held_out": data.held_out,
        "how": visible_line(data.read_as),
        "prompt": prompt,
        "model": model,
        "hours": options.hours and f"{options.hours:g} h",
        "validates": data.has_validation(),
        "longest": fit(0, tokenizer, corpus).max_new_tokens,
        "chat": data.source.chat,
        "export": supported_export(tokenizer) if tokenizer else "pretoken",
        "seed": options.seed,
    }


def _recipe_model(options: InitOptions) -> str | None:
    """Return the model as the recipe names it, in YAML."""
    model = options.model
    if model and not Path(model).is_absolute() and Path(model).exists():
        model = os.path.relpath(model, options.folder)
    return None if model is None else as_yaml(model)


def recipe_values(
    options: InitOptions,
    data: OwnData,
    corpus: Corpus | None,
    made: MadeAnalysis | None,
    trimmed: TrimmedModel | None,
    progress: Progress,
) -> dict[str, Any]:
    """Return the values of the recipe that follow from an analysis of the data, if there is one.

    ``trimmed`` is the model that the recipe trains instead of the one given, if it is proposed.
    """
    analysis = made.results if made else None
    pays = analysis.verdict.fine_tune if analysis else None
    words = corpus is not None and all(map(_LABEL.fullmatch, corpus.outputs))
    left_out = words if pays is None else not pays
    size = analysis.recommended_size.budget if analysis and analysis.recommended_size else 0
    why = analysis.verdict.reasons[0] if analysis and pays is False else _SHORT_WORDS
    rows = data.rows()
    return {
        "left_out": left_out,
        "why": wrap(visible_line(why), 94),
        "new_tokens": size,
        "suggested": size or SUGGESTED,
        "trim": trimmed and trimmed.reason,
        "start": "trimmed" if trimmed else _recipe_model(options) or "base",
        "first_try": max(1, min(_FIRST_TRY, rows.get("train", 2 * _FIRST_TRY) // 2)),
        "rows": {name: f"{count:,}" for name, count in rows.items()},
        "counts": rows,
        "fit": _fit(options, corpus, rows, 1 if left_out else 2, trimmed, progress),
    }


def analysis_of(options: InitOptions, progress: Progress) -> MadeAnalysis | None:
    """Analyse the task as the recipe does; None if the model's tokenizer is not here."""
    tokenizer = tokenizer_of(options.model)
    if tokenizer is None or options.model is None:
        return None
    progress("analyse the outputs", 0, 0)
    asked = AnalyzeOptions(
        source=str(options.task),
        tokenizer=options.model,
        export=supported_export(tokenizer),
        seed=options.seed,
    )
    begin = time.process_time()
    results: AnalysisResults = analyze(asked).report
    return MadeAnalysis(results, time.process_time() - begin)


def _source_keys(options: InitOptions, data: OwnData, inferred: Inferred | None) -> dict[str, Any]:
    """Return the keys of the task file that name the data and the constraint of the outputs."""
    source = data.source
    keys = options.source.model_dump(include=options.source.model_fields_set)
    if data.new_splits:
        keys["path"] = f"{data.name}-splits"
    elif is_local(source.path):
        keys["path"] = os.path.relpath(source.path, options.folder.resolve())
    if source.chat and not source.names("template"):
        tokenizer = tokenizer_of(options.model)  # one on the Hub is taken to have a chat template
        if not (ChatTemplate.of(tokenizer) if tokenizer else options.model):
            keys["template"] = BARE  # the chat's messages without roles
    if inferred is not None and inferred.option in Task.model_fields:
        keys[inferred.option] = inferred.file
        if inferred.delimiter:
            keys["delimiter"] = inferred.delimiter
    return keys


def _prompt_keys(data: OwnData, prompt: ChosenPrompt | None) -> dict[str, str]:
    """Return the keys of a task file; with a template, columns are no longer recognised."""
    if prompt is None:
        return {}
    source = data.source
    columns = {"input_column": source.input_column, "output_column": source.output_column}
    return (columns if data.read_as else {}) | {"template": prompt.template}


def _fit(
    options: InitOptions,
    corpus: Corpus | None,
    rows: dict[str, int],
    models: int,
    trimmed: TrimmedModel | None,
    progress: Progress,
) -> Fit:
    """Choose the options of the steps of ``models`` trainings. ``rows`` counts those of splits."""
    parameters = parameters_of(options.model)
    has_files = options.model is not None and parameters < math.inf
    tokenizer = load_tokenizer(options.model) if options.model and has_files else None
    chosen = fit(parameters, tokenizer, corpus)
    chosen = replace(chosen, test=min(chosen.test, rows.get("test", chosen.test)))
    if options.hours is None:
        return chosen
    if tokenizer is None or corpus is None or options.model is None:
        raise InputError(
            f"--hours {options.hours:g} measures a model and data on this machine, but got none: "
            "give both as folders, or leave out --hours"
        )
    validated = min(rows.get("validation", 0), _VALIDATED)
    model = str(trimmed.folder) if trimmed else options.model
    if trimmed:
        tokenizer = load_tokenizer(model)
    return within(chosen, options.hours, model, tokenizer, corpus, validated, progress, models)
