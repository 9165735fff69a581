"""A running command: its texts, with the prompts of chats written, and its folder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tasc.data.corpus import Corpus, splits
from tasc.data.division import TRAIN, VALIDATION, missing_splits
from tasc.errors import InputError
from tasc.files.scratch import scratch
from tasc.options.command import ModelOptions, StepOptions
from tasc.options.references import parse_label
from tasc.options.texts import Texts, read_texts
from tasc.progress import Progress, silent
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.loaded import load_tokenizer


@dataclass(frozen=True)
class StepContext:
    """A running command."""

    texts: Texts  # the splits that its options name
    work: Path  # folder for checkpoints
    resume: bool = False  # whether to continue from the checkpoints there
    progress: Progress = silent

    @property
    def kept(self) -> dict[str, Any]:
        """Keyword arguments of calls that write checkpoints."""
        return {"work": self.work, "resume": self.resume, "progress": self.progress}


@contextmanager
def at_work(options: StepOptions, context: StepContext | None) -> Iterator[StepContext]:
    """Use the number of threads in ``options`` for the block.

    Without a ``context``, read the texts, and delete checkpoints at the end.
    """
    with using_threads(options):
        if context is not None:
            yield context
            return
        with scratch() as folder:
            yield StepContext(with_prompts(options, read_texts(options)), folder)


@contextmanager
def using_threads(options: StepOptions) -> Iterator[None]:
    """Run the block with ``options.threads`` CPU threads in torch; None keeps their number."""
    if not isinstance(options, ModelOptions) or options.threads is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def with_prompts(options: StepOptions, texts: Texts, now: datetime | None = None) -> Texts:
    """Write the prompts and outputs of chats as the command's tokenizer does at the time ``now``.

    A command that only counts outputs (``chat_template_of`` is empty) gets the messages without
    roles. Without a chat template, chats stay unwritten, and reading their prompts is an error.

    Raises InputError if a chat template cannot be used, or the models have different ones.
    """
    if not any(corpus.is_chat for corpus in texts.corpora.values()):
        return texts
    if not options.spec.chat_template_of:
        return replace(texts, corpora=_written(texts, unwritten))
    template = _template(options, now or datetime.now())
    if template is None:
        return texts
    corpora = _written(texts, template.apply)
    notes = [template.date_note, template.spacing_note(corpora.values())]
    notes.append(template.unread_note(texts.corpora.values()))
    return replace(texts, corpora=corpora, chat_notes=tuple(filter(None, notes)))


def _written(texts: Texts, write: Callable[[Corpus], Corpus]) -> dict[str, Corpus]:
    return {name: write(corpus) for name, corpus in texts.corpora.items()}


def to_hold_out(texts: Texts) -> list[str]:
    """Return the splits to hold out from the main split; none if there is one to validate on.

    Of train, a test is held out too if the data have none, as ``tasc init`` does.
    """
    if "held_out" in texts.corpora:
        return []
    main = texts.stream or texts.corpus
    missing = missing_splits(splits(main.source)) if main.split == TRAIN else []
    return [VALIDATION, *(name for name in missing if name != VALIDATION)]


def unwritten(corpus: Corpus) -> Corpus:
    """Return chats with the text of their messages as prompts, without roles."""
    return replace(corpus, examples=tuple(replace(e, turn=None) for e in corpus.examples))


def _template(options: StepOptions, now: datetime) -> ChatTemplate | None:
    """Return the one chat template of all tokenizers that the command names."""
    named = options.named(options.spec.chat_template_of)
    templates = [ChatTemplate.of(load_tokenizer(parse_label(name)[1]), now) for name in named]
    for name, other in zip(named, templates, strict=True):
        if (other and other.source) != (templates[0] and templates[0].source):
            raise InputError(
                f"{named[0]} and {name} have different chat templates: give models that share one, "
                "or write --template '{input}\\n'"
            )
    return templates[0] if templates else None
