"""Writing a recipe for a user's own data: data → constraint → prompt → values → files."""

from dataclasses import replace
from pathlib import Path

from tasc.commands.estimate import MadeAnalysis, StepEstimate, estimate_steps
from tasc.commands.plan import RunOptions, read
from tasc.commands.starter.data import OwnData, divided, name_of, recognised
from tasc.commands.starter.fit import chat_outputs
from tasc.commands.starter.infer import Inferred, infer, unfit
from tasc.commands.starter.model import tokenizer_of
from tasc.commands.starter.options import InitOptions, Started
from tasc.commands.starter.prompts import ChosenPrompt, written
from tasc.commands.starter.render import rendered
from tasc.commands.starter.trial import prompt_for
from tasc.commands.starter.values import analysis_of, recipe_values, task_values
from tasc.commands.trimmed import TrimmedModel, proposed
from tasc.data.corpus import Corpus
from tasc.errors import InputError
from tasc.files.disk import writing
from tasc.files.folders import remove
from tasc.files.scratch import scratch
from tasc.progress import Progress, silent


def start_recipe(options: InitOptions, progress: Progress = silent) -> Started:
    """Write a recipe, and the splits that the data do not have.

    Raises InputError if the data cannot be read or are too few, or what would be written is there.

    Example:
        >>> tasc.start_recipe(tasc.InitOptions(source="commands.jsonl")).recipe
        PosixPath('recipe.yaml')
    """
    recipe, task = Path(options.recipe), options.task
    _check_free(recipe, "another file with --recipe")
    if not options.folder.is_dir():
        raise InputError(f"{options.folder} is not a folder: create it, or give another --recipe")
    progress("read the data", 0, 0)
    source, read_as, existing = recognised(options)
    if task == recipe:
        raise InputError(f"{recipe} is where the task file goes: give another --recipe")
    if not options.has_task_file:
        _check_free(task)
    folder = options.folder / f"{name_of(source)}-splits"
    if "test" not in existing and not options.has_task_file:
        _check_free(folder)
    data = divided(options, source, read_as, existing)
    inferred, prompt = None, None
    if not options.has_task_file:
        progress("infer a constraint from the outputs", 0, 0)
        inferred = _constraint(options, data)
        prompt = prompt_for(options, data, progress)
    corpus = _with_prompt(data.corpus, prompt)
    values = task_values(options, data, corpus, inferred, prompt)
    files = {folder / f"{name}.jsonl": _lines(rows) for name, rows in data.new_splits.items()}
    if not options.has_task_file:
        files[task] = rendered("task.yaml", values)
    if inferred is not None:
        files[options.folder / inferred.file] = inferred.text
    try:
        _write(files)
        analysis = analysis_of(options, progress) if corpus is not None else None
        with scratch() as made:
            trimmed = proposed(options.model, corpus, made / "trimmed", progress)
            values |= recipe_values(options, data, corpus, analysis, trimmed, progress)
            _write({recipe: rendered("recipe.yaml", values)})
            estimates = _estimates(options, analysis, trimmed, progress)
    except BaseException:
        folders = [folder] if data.new_splits else []
        for path in [*folders, *files, recipe]:  # none of them existed
            remove(path)
        raise
    finds_misfits = corpus is not None and inferred is None and not source.chat
    return Started(
        recipe=recipe,
        task=task,
        read_as=read_as,
        held_out=data.held_out,
        folder=folder if data.new_splits else None,
        constraint=options.folder / inferred.file if inferred else None,
        fitting=inferred.share if inferred else 0.0,
        unfit=unfit(corpus.outputs) if corpus and finds_misfits else "",
        template=prompt.template if prompt else None,
        prompts=prompt.tried if prompt else (),
        verdict=analysis.results.verdict if analysis else None,
        left_out=values["left_out"],
        estimates=estimates,
    )


def _estimates(
    options: InitOptions,
    analysis: MadeAnalysis | None,
    trimmed: TrimmedModel | None,
    progress: Progress,
) -> dict[str, StepEstimate]:
    """Estimate the steps of the recipe, with what was made for it before."""
    plan = read(Path(options.recipe), RunOptions(recipe=options.recipe))
    analyses = {"analysis": analysis} if analysis else {}
    models = {"trimmed": trimmed.folder} if trimmed else {}
    return estimate_steps(plan, analyses, progress, models)


def _constraint(options: InitOptions, data: OwnData) -> Inferred | None:
    """Infer labels or the schema of the outputs: of chats labels alone, of the Hub neither."""
    if data.corpus is None:
        return None
    chat, outputs = data.source.chat, data.corpus.outputs
    if chat:
        outputs = chat_outputs(data.corpus, tokenizer_of(options.model))
    words = data.corpus.listed_outputs is not None
    inferred = infer(outputs, data.name, options.seed, words=words)
    if chat and inferred is not None and not inferred.is_labels:
        return None
    if inferred is not None:
        _check_free(options.folder / inferred.file)
    return inferred


def _with_prompt(corpus: Corpus | None, prompt: ChosenPrompt | None) -> Corpus | None:
    """Return the examples with the prompts that a chosen template writes."""
    if corpus is None or prompt is None:
        return corpus
    prompts = written(prompt.template, [example.input for example in corpus.examples])
    pairs = zip(corpus.examples, prompts, strict=True)
    return replace(corpus, examples=tuple(replace(one, prompt=text) for one, text in pairs))


def _check_free(path: Path, advice: str = "a recipe in another folder with --recipe") -> None:
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists and is not replaced: remove it, or name {advice}")


def _lines(rows: list[str]) -> str:
    return "\n".join(rows) + "\n"


def _write(files: dict[Path, str]) -> None:
    for file, text in files.items():
        with writing(file):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
