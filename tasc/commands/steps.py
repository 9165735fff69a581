"""Every command as a step: what it reads, and how that becomes an artefact."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tasc.benchmark.pages.write import write_pages
from tasc.commands.context import Result, StepContext, with_prompts
from tasc.commands.registry import STEPS
from tasc.files.artefact import Step, check_kept, create, fingerprint, up_to_date, write_json
from tasc.options.command import StepOptions
from tasc.options.references import join, parse_label
from tasc.options.texts import Texts, read_texts
from tasc.progress import Progress, silent
from tasc.report.record import Report
from tasc.tokenizer.files import COMPANIONS


@dataclass(frozen=True)
class Outcome:
    """A finished step: its folder, its typed report, and whether it was there already."""

    output: Path
    report: Any  # of a class in ``tasc.commands.registry``
    reused: bool


def run_step(
    options: StepOptions,
    output: Path,
    *,
    force: bool = False,
    reuse: bool = False,
    resume: bool | Literal["only"] = True,
    progress: Progress = silent,
    tell: Callable[[str], object] = str,
) -> Outcome:
    """Run one step into ``output``; with ``reuse``, an artefact of the same step is left alone.

    ``resume`` continues a killed run of the very same step from its last checkpoint; "only" refuses
    if the checkpoints belong to another step. ``tell`` receives a line on how unnamed columns are
    read, and a line on skipped examples.
    """
    check_kept(output, _read(options))
    texts = read_texts(options)
    asked = options.model_dump(mode="json", exclude={*options.spec.incidental})
    step = Step(options.command, asked, _inputs(options, texts))
    if reuse and up_to_date(output, step):
        report = STEPS[options.command].read_report(output / options.spec.result_file)
        return Outcome(output, report, reused=True)
    insist = resume == "only"
    with create(output, step, force=force or reuse, seed=options.seed, insist=insist) as workspace:
        for line in filter(None, (texts.recognised, texts.left_out)):
            tell(line)
        texts = with_prompts(options, texts)
        context = StepContext(texts, workspace.work, bool(resume), progress)
        made: Result = STEPS[options.command].function()(options, context)
        report = _save(made, workspace.folder)
        write_json(workspace.folder / options.spec.result_file, report.to_dict())
    return Outcome(output, report, reused=False)


def _save(made: Result, folder: Path) -> Any:  # noqa: ANN401 - a class of ``tasc.commands.registry``
    """Write the files of an artefact and the pages of its report; return the report."""
    report = made if isinstance(made, Report) else made.report
    if not isinstance(made, Report):
        made.save(folder)
    if isinstance(report, Report):
        write_pages(report, folder)
    return report


def _read(options: StepOptions) -> Iterator[Path]:
    """Yield what a step reads: its data, and all that its options refer to."""
    if options.data:
        yield Path(options.data.path)
    for name in options.spec.references:
        yield from (Path(parse_label(text)[1]) for text in options.named(name))


def _inputs(options: StepOptions, texts: Texts) -> dict[str, str]:
    inputs = {"source": texts.fingerprint}
    for name in options.spec.references:
        inputs[name] = " ".join(_identify(text) for text in options.named(name))
    return inputs


def _identify(text: str) -> str:
    """Name what a reference holds: label and contents of what lies there, or the Hub id itself.

    With a tokenizer's file go those beside it that belong to it.
    """
    label, path = parse_label(text)
    folder = Path(path)
    if not folder.exists():
        return text
    beside = [folder.parent / name for name in COMPANIONS] if folder.suffix == ".json" else []
    held = [fingerprint(file) for file in (folder, *beside) if file == folder or file.is_file()]
    return join(label, "+".join(held))
