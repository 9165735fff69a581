"""Writing a recipe for a user's own data: what its data are, as they were found."""

import json
import math
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any, ClassVar

import yaml
from pydantic import Field, field_validator

from tasc.analysis.options import AnalyzeOptions
from tasc.benchmark.results.analysis import AnalysisResults, Verdict
from tasc.commands.advice import SUGGESTED
from tasc.commands.calls import analyze
from tasc.commands.starter.fit import Fit, chat_outputs, fit, within
from tasc.commands.starter.holdout import hold_out
from tasc.commands.starter.infer import Inferred, infer, unfit
from tasc.commands.starter.prompts import BARE, ChosenPrompt, TriedPrompt, labelled, written
from tasc.commands.starter.trial import choose
from tasc.data.corpus import Corpus, as_recognised, load, precheck, splits
from tasc.data.local import is_local
from tasc.data.source import BUILTIN, Source
from tasc.data.table import Table
from tasc.errors import InputError
from tasc.files.disk import writing
from tasc.files.folders import remove
from tasc.files.packaged import is_here
from tasc.models.folder.fetch import local_folder
from tasc.models.folder.files import elements, tensor_shapes, weight_files
from tasc.options.command import CommandOptions
from tasc.options.fields import MODEL, Seed, as_value_error
from tasc.options.references import expand_user, resolve_model
from tasc.options.task import Data, Task, as_task, is_task_file
from tasc.progress import Progress, silent
from tasc.report.html import plain_template
from tasc.report.record import Report
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.visible import STEERING, visible_line
from tasc.vocab.exports.export import supported_export

_LABEL = re.compile(r"\s*[A-Za-z0-9]{1,16}\s*")  # a short word: one token or two
_SHORT_WORDS = "Every output is one short word: TASC-ft has nothing to shorten."


class InitOptions(CommandOptions):
    """Options of ``tasc init``."""

    command = "init"
    flags: ClassVar = ("json",)

    source: Data
    model: str | None = Field(
        None,
        description=f"{MODEL} to fine-tune; without it the recipe trains a small one from scratch.",
    )
    recipe: str = Field(
        "recipe.yaml", description="Recipe file to write. An existing file is never replaced."
    )
    hours: float | None = Field(
        None,
        gt=0,
        le=10_000,
        description="Time for the whole recipe on this machine, which sets the numbers of examples "
        "and epochs; needs a local --model.",
    )
    seed: Seed = Field(0, description="Seed of the recipe and of held-out examples.")

    @field_validator("model", "recipe")
    @classmethod
    def _expand_user(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not value.strip():
            raise ValueError("--recipe or --model is empty: give a file, and a folder or Hub id")
        with as_value_error():
            return expand_user(value)


class Started(Report):
    """What ``tasc init`` wrote."""

    recipe: Path
    task: Path
    """The task file that the recipe refers to."""
    read_as: str
    """How unnamed columns were recognised; empty if the columns were named."""
    held_out: dict[str, int]
    """Rows of the splits that were written, by name; none where the data have them."""
    folder: Path | None
    """Where those were written."""
    constraint: Path | None = None
    """The labels or the JSON Schema of the outputs, if 99 % of the outputs have one."""
    fitting: float = 0.0
    """Share of held-out outputs that satisfy it."""
    unfit: str = ""
    """Why no schema was written for JSON outputs."""
    template: str | None = None
    """The prompt template that was chosen; None if the data, the task file or you had one."""
    prompts: tuple[TriedPrompt, ...] = ()
    """The prompts that were tried with the model, the best first."""
    verdict: Verdict | None = None
    """The verdict of the recipe's analysis; None without the tokenizer or the data here."""
    left_out: bool = False
    """Whether the recipe leaves TASC-ft out: it does not pay, or outputs are one short word."""


def start_recipe(options: InitOptions, progress: Progress = silent) -> Started:
    """Write a recipe, and the splits that the data do not have.

    Raises InputError if the data cannot be read or are too few, or what would be written is there.

    Example:
        >>> tasc.start_recipe(tasc.InitOptions(source="commands.jsonl")).recipe
        PosixPath('recipe.yaml')
    """
    recipe = Path(options.recipe)
    _check_free(recipe, "another file with --recipe")
    if not recipe.parent.is_dir():
        raise InputError(f"{recipe.parent} is not a folder: create it, or give another --recipe")
    progress("read the data", 0, 0)
    source, how, existing = _source(options)
    given = Path(options.source.written["path"])
    task = given if is_task_file(str(given)) else recipe.parent / "task.yaml"
    if task == recipe:
        raise InputError(f"{recipe} is where the task file goes: give another --recipe")
    if task != given:
        _check_free(task)
    folder, held = recipe.parent / f"{_name(source)}-splits", dict[str, list[str]]()
    if "test" not in existing:
        if task == given:
            raise InputError(f"{source.path} has no split test: add one beside the others")
        _check_free(folder)
        held = hold_out(source, options.seed, existing)
    held_out = {name: len(lines) for name, lines in held.items()}
    here = is_local(source.path) or source.path.startswith(BUILTIN)
    corpus = load(source, "train") if here else None
    progress("infer a constraint from the outputs", 0, 0)
    inferred = _inferred(options, source, corpus) if task != given else None
    prompt = _prompt(options, source, held, corpus, progress) if task != given else None
    corpus = _prompted(corpus, prompt)
    data = _data(options, source, folder if held else None, inferred)
    data |= _prompt_keys(source, how, prompt)
    values = _values(options, source, data, how, held_out, corpus, prompt)
    files = {folder / f"{name}.jsonl": "\n".join(held[name]) + "\n" for name in held}
    files |= {} if task == given else {task: _rendered("task.yaml", values)}
    files |= {recipe.parent / inferred.file: inferred.text} if inferred else {}
    try:
        _write(files)
        analysis = _analysis(options, task, progress) if here else None
        values |= _choices(options, source, held_out, corpus, analysis, progress)
        _write({recipe: _rendered("recipe.yaml", values)})
    except BaseException:
        for made in [folder, *files, recipe] if held else [*files, recipe]:  # none of them existed
            remove(made)
        raise
    return Started(
        recipe=recipe,
        task=task,
        read_as=how,
        held_out=held_out,
        folder=folder if held else None,
        constraint=recipe.parent / inferred.file if inferred else None,
        fitting=inferred.share if inferred else 0.0,
        unfit=unfit(corpus.outputs) if corpus and not (inferred or source.chat) else "",
        template=prompt.template if prompt else None,
        prompts=prompt.tried if prompt else (),
        verdict=analysis.verdict if analysis else None,
        left_out=values["left_out"],
    )


def _write(files: dict[Path, str]) -> None:
    for file, text in files.items():
        with writing(file):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")


def _source(options: InitOptions) -> tuple[Source, str, list[str]]:
    """Return the data as recognised, how they were, and their splits."""
    source = options.source.source()
    existing = splits(source)
    if "train" not in existing:
        has = ", ".join(existing)
        raise InputError(f"{source.path} has no split train but {has}: give data to learn from")
    for name in existing:
        precheck(source, name)
    task = as_task(options.source.written["path"])
    renamed = [name for name in (task.splits if task else ()) if name not in existing]
    return *as_recognised(source, "train"), [*existing, *renamed]


def _data(
    options: InitOptions, source: Source, folder: Path | None, inferred: Inferred | None
) -> dict[str, Any]:
    """Return the source as the task file names it; ``folder`` is that of splits to be written."""
    data = options.source.model_dump(include=options.source.model_fields_set)
    if folder is not None:
        data["path"] = folder.name
    elif is_local(source.path):
        data["path"] = os.path.relpath(source.path, Path(options.recipe).parent.resolve())
    if source.chat and not source.names("template"):
        tokenizer = _tokenizer(options.model)  # one on the Hub is taken to have a chat template
        if not (ChatTemplate.of(tokenizer) if tokenizer else options.model):
            data["template"] = BARE  # the chat's messages without roles
    if inferred is not None and inferred.option in Task.model_fields:
        data[inferred.option] = inferred.file
    return data


def _inferred(options: InitOptions, source: Source, corpus: Corpus | None) -> Inferred | None:
    """Infer the labels or the schema of the outputs: of chats labels alone, of the Hub neither."""
    if corpus is None:
        return None
    outputs = chat_outputs(corpus, _tokenizer(options.model)) if source.chat else corpus.outputs
    inferred = infer(outputs, _name(source), options.seed)
    if source.chat and inferred is not None and inferred.option != "choices":
        return None
    if inferred is not None:
        _check_free(Path(options.recipe).parent / inferred.file)
    return inferred


def _prompt(
    options: InitOptions,
    source: Source,
    held: dict[str, list[str]],
    corpus: Corpus | None,
    progress: Progress,
) -> ChosenPrompt | None:
    """Choose a prompt; None for chats, and for a template that was given or that the data imply.

    A model that is not on this machine, or without weights, cannot try prompts.
    """
    if source.chat or source.names("template"):
        return None
    parameters = _parameters(options.model)
    if options.model is None or corpus is None or parameters == math.inf:
        return ChosenPrompt(labelled(source))
    pairs = [(example.input, example.output) for example in corpus.examples]
    if held:  # test examples choose nothing
        pairs = _pairs(source, held["train"])
    tokenizer = load_tokenizer(options.model)
    return choose(
        options.model, parameters, tokenizer, source, pairs, options.hours, options.seed, progress
    )


def _pairs(source: Source, lines: list[str]) -> list[tuple[str, str]]:
    """Return the inputs and outputs of lines of JSON, as texts."""
    rows = [json.loads(line) for line in lines]
    names = source.input_column, source.output_column
    table = Table("train", {name: [row[name] for row in rows] for name in names}, str)
    return list(zip(*(table.texts(name) for name in names), strict=True))


def _prompt_keys(source: Source, how: str, prompt: ChosenPrompt | None) -> dict[str, str]:
    """Return the keys of a task file; with a template, columns are no longer recognised."""
    if prompt is None:
        return {}
    columns = {"input_column": source.input_column, "output_column": source.output_column}
    return (columns if how else {}) | {"template": prompt.template}


def _prompted(corpus: Corpus | None, prompt: ChosenPrompt | None) -> Corpus | None:
    if corpus is None or prompt is None:
        return corpus
    prompts = written(prompt.template, [example.input for example in corpus.examples])
    pairs = zip(corpus.examples, prompts, strict=True)
    return replace(corpus, examples=tuple(replace(one, prompt=text) for one, text in pairs))


def _check_free(path: Path, advice: str = "a recipe in another folder with --recipe") -> None:
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists and is not replaced: remove it, or name {advice}")


def _tokenizer(model: str | None) -> LoadedTokenizer | None:
    """Return a model's tokenizer; None without a model, and for one on the Hub."""
    return load_tokenizer(model) if model and is_here(model) else None


def _parameters(model: str | None) -> float:
    """Count a model's parameters; one on the Hub is taken to be large."""
    if model is None:
        return 0
    folder = local_folder(resolve_model(model)[1])
    try:
        return elements(tensor_shapes(weight_files(folder), f"model {folder}"))
    except InputError:  # it is not here, or has no weights yet
        return math.inf


def _fit(
    options: InitOptions,
    corpus: Corpus | None,
    rows: dict[str, int],
    models: int,
    progress: Progress,
) -> Fit:
    """Choose the options of the steps of ``models`` trainings. ``rows`` counts those of splits."""
    known = options.model is not None and _parameters(options.model) < math.inf
    tokenizer = load_tokenizer(options.model) if options.model and known else None
    chosen = fit(_parameters(options.model), tokenizer, corpus)
    chosen = replace(chosen, test=min(chosen.test, rows.get("test", chosen.test)))
    if options.hours is None:
        return chosen
    if tokenizer is None or corpus is None or options.model is None:
        raise InputError(
            f"--hours {options.hours:g} measures a model and data on this machine, but got none: "
            "give both as folders, or leave out --hours"
        )
    validated = min(rows.get("validation", 0), 1000)
    return within(
        chosen, options.hours, options.model, tokenizer, corpus, validated, progress, models
    )


def _rows(source: Source, held_out: dict[str, int], corpus: Corpus | None) -> dict[str, int]:
    """Return the rows of the splits that the recipe uses; nothing for data on the Hub."""
    if held_out or corpus is None:
        return held_out
    names = [name for name in ("validation", "test") if name in splits(source)]
    others = {name: len(load(source, name).examples) for name in names}
    return {"train": len(corpus.examples)} | others


def _name(source: Source) -> str:
    """Name the data: a file's name without its endings, else the last part of what was given."""
    path = source.path.removeprefix(BUILTIN)
    return Path(path).name.partition(".")[0] or "data" if is_local(path) else Path(path).name


def _analysis(options: InitOptions, task: Path, progress: Progress) -> AnalysisResults | None:
    """Analyse the task as the recipe does; None if the model's tokenizer is not here."""
    tokenizer = _tokenizer(options.model)
    if tokenizer is None or options.model is None:
        return None
    progress("analyse the outputs", 0, 0)
    asked = AnalyzeOptions(
        source=str(task),
        tokenizer=options.model,
        export=supported_export(tokenizer),
        seed=options.seed,
    )
    analysis: AnalysisResults = analyze(asked).report
    return analysis


def _values(
    options: InitOptions,
    source: Source,
    data: dict[str, Any],
    how: str,
    held_out: dict[str, int],
    corpus: Corpus | None,
    prompt: ChosenPrompt | None,
) -> dict[str, Any]:
    """Return the values of the templates: values as YAML, and texts of comments as one line."""
    recipe, given = Path(options.recipe), options.source.written["path"]
    task = given if is_task_file(given) else str(recipe.parent / "task.yaml")
    look = ["tasc", "data", task, "--tokenizer", options.model or f"tasc-out/{recipe.stem}/base"]
    tokenizer, model = _tokenizer(options.model), options.model
    if model and not Path(model).is_absolute() and Path(model).exists():
        model = os.path.relpath(model, recipe.parent)
    return {
        "look": visible_line(shlex.join(look)),
        "task": _value(os.path.relpath(Path(task).resolve(), recipe.parent.resolve())),
        "path": _value(data["path"]),
        "data": {name: _value(value) for name, value in data.items() if name != "path"},
        "name": _value(_name(source)),
        "about": visible_line(options.source.path),
        "file": visible_line(shlex.quote(options.recipe)),
        "held_out": held_out,
        "how": visible_line(how),
        "prompt": prompt,
        "model": None if model is None else _value(model),
        "hours": options.hours and f"{options.hours:g} h",
        "validates": "validation" in (held_out or splits(source)),
        "longest": fit(0, tokenizer, corpus).max_new_tokens,
        "chat": source.chat,
        "export": supported_export(tokenizer) if tokenizer else "pretoken",
        "seed": options.seed,
    }


def _choices(
    options: InitOptions,
    source: Source,
    held_out: dict[str, int],
    corpus: Corpus | None,
    analysis: AnalysisResults | None,
    progress: Progress,
) -> dict[str, Any]:
    """Return the values of the recipe that follow from an analysis of the data, if there is one."""
    advised_against = analysis is not None and analysis.verdict.fine_tune is False
    words = corpus is not None and all(map(_LABEL.fullmatch, corpus.outputs))
    left_out = advised_against or words
    size = analysis.recommended_size.budget if analysis and analysis.recommended_size else 0
    why = analysis.verdict.reasons[0] if analysis and advised_against else _SHORT_WORDS
    rows = _rows(source, held_out, corpus)
    return {
        "left_out": left_out,
        "why": wrap(visible_line(why), 94),
        "new_tokens": size,
        "suggested": size or SUGGESTED,
        "rows": {name: f"{count:,}" for name, count in rows.items()},
        "counts": rows,
        "fit": _fit(options, corpus, rows, 1 if left_out else 2, progress),
    }


def _rendered(name: str, values: dict[str, Any]) -> str:
    return plain_template("tasc.commands.starter", name, commented=_commented).render(values)


def _commented(text: str) -> str:
    """Return the lines of a recipe's step as comments."""
    return "".join(f"  # {line[2:]}\n" for line in text.splitlines())


def _value(value: object) -> str:
    plain = not STEERING.search(str(value))
    style = '"' if isinstance(value, str) and "\n" in value else None  # else YAML folds the lines
    return yaml.safe_dump(
        [value], default_flow_style=True, default_style=style, width=2**20, allow_unicode=plain
    )[1:-2]
