"""A conversation with one model: answers in pieces, as they come, by what those were drafted from.

A chat template writes the whole conversation anew for each answer; without one, each text is a
prompt of its own, written by ``--template``.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasc.commands.context import StepContext
from tasc.commands.conversation.options import ChatOptions
from tasc.data.source import Source
from tasc.decoding.core.protocols import SOURCES, Drafter, ReportsSources, inner
from tasc.decoding.core.resources import Resources, end_ids
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters.ngram.index import load_index
from tasc.decoding.library import chosen, prepare
from tasc.decoding.steps import StepStats
from tasc.errors import InputError
from tasc.models.folder.disk_cache import cache_folder
from tasc.models.load import load_model
from tasc.models.static import target_for
from tasc.options.references import resolve_model
from tasc.options.texts import MAIN
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer

_BROKEN = "\ufffd"  # what a part of a character is decoded to
OnPiece = Callable[[str, str], None]  # (text, what it was drafted from; "" for the model's own)


@dataclass(frozen=True)
class Answer:
    """One answer of the model."""

    text: str  # without the end token
    tokens: int  # of it, the end token included
    steps: int  # forwards that it took, the prompt's included
    tokens_per_step: float  # what a step after the prompt's forward commits, mean
    seconds: float  # from prompt to last token
    accepted: dict[str, int]  # draft tokens of it, by what they were drafted from


class Conversation:
    """A model, what drafts for it, and what was said so far."""

    def __init__(self, options: ChatOptions, context: StepContext) -> None:
        """Load the model. Raises InputError where it, or what drafts, cannot be used."""
        self.options, known = options, context.texts.corpora.get(MAIN)
        _, path = resolve_model(options.model)
        tokenizer = load_tokenizer(path)
        self.template = self._chat_template(tokenizer)
        if options.system and self.template is None:
            raise InputError(
                f"{options.model} has no chat template that a system message stands in: leave "
                "--system out"
            )
        self.tokenizer = tokenizer.ending(self.template.end if self.template else None)
        model = load_model(path, dtype=options.dtype, device=options.device, tokenizer=tokenizer)
        self.target = target_for(model)
        self.ends = end_ids(model, self.tokenizer.eos_id)
        self.method = options.drafter
        self.sampling = (
            None
            if options.temperature is None
            else Sampling(options.temperature, seed=options.seed)
        )
        resources = Resources(
            (),
            self.ends[0],
            target=self.target,
            cache=cache_folder(),
            progress=context.progress,
            tokenizer=self.tokenizer,
            sampling=self.sampling,
            draft_head=Path(options.draft_head) if options.draft_head else None,
        )
        outputs = self.tokenizer.encode(known.outputs).split() if known else None
        index = load_index(Path(options.index), self.tokenizer) if options.index else None
        self.source = self.method.source(resources)
        self.make = prepare(self.method, index or outputs, None, resources)
        self.answers = 0
        self.forget()

    def _chat_template(self, tokenizer: LoadedTokenizer) -> ChatTemplate | None:
        data = self.options.source
        named = data is not None and "template" in data.model_fields_set
        return None if named else ChatTemplate.of(tokenizer)

    def forget(self) -> None:
        """Begin again; what drafters learnt they keep."""
        system = self.options.system
        self.messages = [{"role": "system", "content": system}] if system else []

    def say(self, text: str, on_piece: OnPiece) -> Answer:
        """Answer ``text``; a piece is of one step and one source.

        Raises InputError where the conversation is longer than the model reads.
        """
        self.messages.append({"role": "user", "content": text})
        drafter = self.make()
        told = _Pieces(self.tokenizer.decode, drafter, self.source, on_piece)
        try:
            request = Request(
                self._prompt(text),
                lambda: drafter,
                chosen("sampled", self.sampling, self.answers),
                on_tokens=told.take,
            )
            (made,) = generate_all(
                self.target,
                [request],
                max_new_tokens=self.options.max_new_tokens,
                end_ids=self.ends,
                budget=self.method.budget,
            )
        except BaseException:
            self.messages.pop()
            raise
        told.end()
        answer = self.tokenizer.decode(made.tokens.tolist())
        self.messages.append({"role": "assistant", "content": answer})
        self.answers += 1
        return Answer(
            answer,
            len(made.tokens),
            made.decoding_steps,
            StepStats.of([made]).tokens_per_step,
            made.timeline.total,
            dict(told.accepted.most_common()),
        )

    def _prompt(self, text: str) -> np.ndarray:
        if self.template is not None:
            written = self.template.prompt(self.messages)
        else:
            data = self.options.source  # its template; without data the default one
            source = data.source() if data else Source(self.options.model)
            written = source.prompt(text, dict.fromkeys(source.template_columns(), ""))
        return self.tokenizer.encode([written]).split()[0]


class _Pieces:
    """Turns the tokens of each step into text, as soon as characters are whole."""

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        drafter: Drafter,
        source: str,
        on_piece: OnPiece,
    ) -> None:
        own = inner(drafter)
        self.drafter = own if isinstance(own, ReportsSources) else None
        self.decode, self.source, self.on_piece = decode, source, on_piece
        self.tokens: list[int] = []
        self.shown = 0  # characters
        self.accepted = Counter[str]()

    def take(self, committed: np.ndarray) -> None:
        """Show what a step committed: accepted tokens, and the last one, the model's own."""
        k = len(committed)
        told = None if self.drafter is None else self.drafter.sources()[-k:]
        for i, token in enumerate(committed.tolist()):
            name = ""
            if i < k - 1:
                name = "other" if told is None else SOURCES[told[i]]
                name = self.source if name == "other" else name
                self.accepted[name] += 1
            self.tokens.append(token)
            self._show(self.decode(self.tokens).rstrip(_BROKEN), name)

    def end(self) -> None:
        """Show what is left: half a character."""
        self._show(self.decode(self.tokens), "")

    def _show(self, text: str, source: str) -> None:
        if len(text) > self.shown:
            self.on_piece(text[self.shown :], source)
            self.shown = len(text)
