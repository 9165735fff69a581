"""Every command as a step: what it reads, and how that becomes an artefact."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tasc.artefact import Step, create, fingerprint, up_to_date, write_json
from tasc.data.corpus import Corpus, load, splits
from tasc.data.source import Source
from tasc.data.stream import Stream, open_stream
from tasc.data.table import choose_split
from tasc.data.tokenizer_files import COMPANIONS
from tasc.errors import InputError
from tasc.places import join, labelled
from tasc.progress import Progress, silent
from tasc.recipe.configs import AnalyzeConfig
from tasc.recipe.job import Job, Result
from tasc.recipe.step_config import ModelConfig, StepConfig
from tasc.recipe.work import WORK

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
    _keep_inputs(config, output)
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
            result = WORK[config.command](job)
        write_json(workspace.folder / config.result_file, result)
    return Outcome(output, result, reused=False)


def _keep_inputs(config: StepConfig, output: Path) -> None:
    """Refuse an output that would replace something the step reads."""
    references = [labelled(text)[1] for name in config.references for text in _listed(config, name)]
    for place in map(Path, (config.source.path, *references)):
        if place.exists() and place.resolve().is_relative_to(os.path.realpath(output)):
            raise InputError(
                f"output {output} would replace {place}, which is read: name another folder"
            )


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
    if not isinstance(config, AnalyzeConfig):  # reads it in passing
        corpora["main"] = load(source, config.split, limit=config.limit, seed=config.seed)
    for role in ("validation", "held_out", "corpus_split"):
        split = getattr(config, role, None)
        asked = role == "corpus_split" or role in config.model_fields_set
        if split is not None and (asked or _is_another(source, split, config.split)):
            most = _VALIDATION if role == "validation" else None
            corpora[role] = load(source, split, limit=most, seed=config.seed)
    return corpora


def _is_another(source: Source, split: str, main: str) -> bool:
    """Whether a default split exists, and is not the very one that the step works on."""
    existing = splits(source)
    try:
        found = choose_split(source.path, existing, split)
    except InputError:
        return False
    return found != choose_split(source.path, existing, main)


def _inputs(
    config: StepConfig, corpora: dict[str, Corpus], stream: Stream | None
) -> dict[str, str]:
    read = {name: corpus.fingerprint for name, corpus in corpora.items()}
    if stream:
        read = {"main": stream.fingerprint, **read}
    inputs = {"source": " ".join(f"{name}={held}" for name, held in read.items())}
    for name in config.references:
        inputs[name] = " ".join(_identify(text) for text in _listed(config, name))
    return inputs


def _listed(config: StepConfig, reference: str) -> tuple[str, ...]:
    """Return what the field ``reference`` names: several, one or nothing."""
    value = getattr(config, reference)
    return value if isinstance(value, tuple) else () if value is None else (value,)


def _identify(text: str) -> str:
    """Name what a reference holds: label and contents of what lies there, or the Hub id itself.

    With a tokenizer's file go those beside it that belong to it.
    """
    label, path = labelled(text)
    place = Path(path)
    if not place.exists():
        return text
    beside = [place.parent / name for name in COMPANIONS] if place.suffix == ".json" else []
    held = [fingerprint(file) for file in (place, *beside) if file == place or file.is_file()]
    return join(label, "+".join(held))
