"""``tasc export``: write one folder that an inference engine loads."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasc.data.choices import find_choices, read_choices
from tasc.data.corpus import Corpus
from tasc.decoding.core.grammar import Grammar
from tasc.decoding.drafters.ngram.index import build_index, load_index, tokens_of
from tasc.decoding.drafters.ngram.options import Counts
from tasc.environment import requirement
from tasc.errors import InputError
from tasc.models.folder.files import CONFIG, GENERATION, read_json
from tasc.models.folder.generation import described
from tasc.models.folder.vocabulary import check_tokens
from tasc.options.constraint import Constraint
from tasc.options.references import resolve_model
from tasc.report.markdown import block, code
from tasc.report.record import Record, Report, Reported
from tasc.serving.options import ExportOptions
from tasc.serving.parts import Format, Parts, Start
from tasc.serving.table import EXPORTS, Entry
from tasc.tokenizer.loaded import load_tokenizer

if TYPE_CHECKING:
    from transformers.configuration_utils import PreTrainedConfig

# how a request asks for outputs of a schema
_REQUESTS = {
    "vllm": "by `structured_outputs` in the request, as above",
    "llama-cpp": "by `--grammar-file outputs.gbnf` or `grammar` in the request",
    "transformers": "by `schema` of `tasc.generate`",
}


class IndexSize(Record):
    """The size of an exported index."""

    tokens: int
    contexts: int


class ExportReport(Report):
    """The parts of an export, and the limits of its engine."""

    to: str
    label: str
    name: str
    vocabulary: int
    drafts: bool
    speculative_tokens: int
    exact: bool
    index: IndexSize | None
    head: str | None
    regex: str | None
    settings: dict[str, Any]
    """Settings of the model's generation_config.json that ``tasc bench`` applies."""
    limits: str
    findings: dict[str, Any]
    notes: tuple[str, ...]
    command: str


@dataclass(frozen=True, eq=False)
class Exported(Reported):
    """An export that can be saved."""

    parts: Parts
    format: Format

    @property
    def start(self) -> Start:
        parts, options = self.parts, self.parts.options
        drafts = parts.index is not None or parts.head is not None
        source = parts.corpus and parts.corpus.source
        prompt = source.example() if source and not source.chat else Start.prompt
        return Start(
            name=parts.name,
            drafts=drafts,
            speculative_tokens=options.speculative_tokens,
            exact=_exact(parts),
            prompt=prompt,
            constraint=parts.named_constraint,
            repetition_penalty=parts.settings.applied.get("repetition_penalty", 1.0),
            ends=tuple(parts.ends),
        )

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.format.save(folder)
        self.parts.save_constraint(folder)
        (folder / "README.md").write_text(_readme(self.start, self.format), encoding="utf-8")

    @property
    def report(self) -> ExportReport:
        parts, start, entry = self.parts, self.start, EXPORTS[self.parts.options.to]
        index = parts.index
        return ExportReport(
            to=parts.options.to,
            label=entry.label,
            name=parts.name,
            vocabulary=len(parts.tokenizer.vocabulary()),
            drafts=start.drafts,
            speculative_tokens=start.speculative_tokens,
            exact=start.exact,
            index=index and IndexSize(tokens=tokens_of(index), contexts=index.contexts),
            head=None if parts.head is None else str(parts.head),
            regex=parts.options.regex,
            settings=parts.settings.applied,
            limits=entry.limits,
            findings=self.format.findings(),
            notes=(*settings_notes(parts), *self.format.notes()),
            command=shlex.join(self.format.command(start)),
        )


def _exact(parts: Parts) -> bool:
    """Return whether all weights are float32, in the GGUF or in the model."""
    if parts.options.to == "llama-cpp":
        return parts.options.weights == "f32"
    config = read_json(parts.folder / CONFIG, f"model {parts.folder}")
    return (config.get("dtype") or config.get("torch_dtype") or "float32") == "float32"


def export(corpus: Corpus | None, options: ExportOptions) -> Exported:
    """Collect the parts of an export and check them with the engine's format.

    Raises InputError if the model, index or head does not exist, they do not fit together, or the
    engine cannot load them.
    """
    from tasc.models.folder import head_files
    from tasc.models.load import check_model

    label, name = resolve_model(options.model)
    if label.startswith("-") or not label.isprintable():
        raise InputError(f"{label!r} cannot name a served model: give another as NAME={name}")
    folder, config = check_model(name)
    model = config.get_text_config()
    tokenizer = load_tokenizer(name).ending(corpus.end if corpus else None)
    check_tokens(tokenizer, model.vocab_size)
    index = head = None
    if options.index:
        index = load_index(Path(options.index), tokenizer)
    elif corpus and not options.head:
        outputs = tokenizer.encode(corpus.outputs).split()
        index = build_index(outputs, tokenizer.eos_id, Counts())
    if options.head:
        head = head_files.find(options.head)
        values, _ = head_files.read(head)
        head_files.check(head, values, model.hidden_size, model.vocab_size)
    constraint = _constraint(options, corpus)
    if constraint:
        Grammar(constraint, tokenizer, (tokenizer.eos_id,))  # raises if it is invalid
    parts = Parts(
        options=options,
        name=label,
        folder=folder,
        tied=model.tie_word_embeddings,
        tokenizer=tokenizer,
        index=index,
        head=head,
        corpus=corpus,
        constraint=constraint,
        generation=_generation(folder, config),
    )
    return Exported(parts, EXPORTS[options.to].format(parts))


def _generation(folder: Path, config: "PreTrainedConfig") -> dict[str, Any]:
    """Return a model's generation_config.json, or its equivalent in config.json without one."""
    from transformers import GenerationConfig

    file = folder / GENERATION
    if file.exists():
        return read_json(file, f"model {folder}")
    stated: dict[str, Any] = GenerationConfig.from_model_config(config).to_diff_dict()
    return stated


def settings_notes(parts: Parts) -> Iterator[str]:
    """Describe which settings of the model its outputs follow in the engine, as in tasc bench."""
    settings, entry = parts.settings, EXPORTS[parts.options.to]
    supported = settings.applied.keys() if entry.settings is None else entry.settings
    applied = {name: value for name, value in settings.applied.items() if name in supported}
    lost = {name: value for name, value in settings.applied.items() if name not in supported}
    if applied:
        yield f"it applies {described(applied)}, as tasc bench does"
    if lost:
        yield (
            f"{entry.label} does not apply {described(lost)} of the model's {GENERATION}, which "
            "tasc bench applies: to measure the served model, remove it there and run tasc bench"
        )
    if settings.ignored:
        yield (
            f"{described(settings.ignored)} of the model's {GENERATION} is left out, as tasc bench "
            "does not use it: requests set it"
        )


def _constraint(options: ExportOptions, corpus: Corpus | None) -> Constraint | None:
    if options.choices is None:
        constraint = options.constraint
        return constraint and constraint.written_as(corpus.outputs if corpus else ())
    file = Path(options.choices)
    if corpus is not None:
        labels = find_choices(options.choices, corpus.source, corpus.split)
    elif file.is_file():
        labels = read_choices(file)
    else:
        raise InputError(f"choices {str(file)!r} is no file: give one, or add --data for a column")
    return Constraint.of_strings(labels, f"choices {options.choices}")


def _readme(start: Start, format: Format) -> str:
    """Return the Markdown. Each command has its own block and runs inside the folder."""
    engine = format.parts.options.to
    command = format.command(start)
    parts = [f"# {code(start.name)}, for {EXPORTS[engine].label}"]
    if start.drafts:
        parts.append("Drafts do not change the output: it is the same token for token.")
    parts += ["## Install", *_installation(EXPORTS[engine])]
    if command:
        parts += ["## Start", "In this folder, or with `tasc serve .`:"]
        parts += [block("sh", _wrapped(command))]
        parts += ["It listens on this machine only; `--host 0.0.0.0` admits other machines."]
    notes = [EXPORTS[engine].limits, *settings_notes(format.parts), *format.notes()]
    if start.constraint:
        ((name, constraint),) = start.constraint.items()
        how = _REQUESTS.get(engine, "with the engine's own structured output")
        notes.append(f"outputs follow the {name} {code(constraint)} if requests ask for it, {how}")
    if "--dtype" in command:
        notes.append("it computes in float32, like the saved model; without `--dtype` it rounds")
    parts += ["## Use", format.example(start), "## Limits"]
    parts += ["\n".join(f"- {note.removesuffix('.')}." for note in notes)]
    return "\n\n".join(parts) + "\n"


def _installation(entry: Entry) -> list[str]:
    package = requirement()
    install, on_cpu = entry.installed_by(package)
    by_pip = install.startswith("pip ")
    parts = [block("sh", install) if by_pip else f"{install[0].upper()}{install[1:]}."]
    if on_cpu:
        parts += ["Or where there is no GPU:", block("sh", on_cpu)]
    if "{tasc}" in entry.install and "file:" in package:
        parts += ["The path is that of tasc on the exporting machine: elsewhere, use your own."]
    return parts


def _wrapped(words: list[str]) -> str:
    """Return a shell command with one option per line."""
    lines = [""]
    for word in map(shlex.quote, words):
        if word.startswith("--") and lines[-1]:
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n".join(lines)
