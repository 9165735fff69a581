"""A tokenizer's chat template: how it writes chats, within bounds, for it may be a stranger's."""

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from tasc.data.chat import Message, Turn
from tasc.data.corpus import Corpus, Example
from tasc.data.foreign import json_object, one_line, text_of
from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer

_CONFIG, _FILE, _OLD = "tokenizer_config.json", "chat_template.jinja", "chat_template.json"
_PROBE = "tasc-probe"
_SECONDS = 10.0  # for one chat
_LONGEST = 4 << 20  # characters of one chat; what can be encoded as one text
_MEMORY = 1 << 30  # bytes that writing one chat may take
_ADVICE = "mend the chat template, or write --template '{input}\\n'"


class ChatTemplate:
    """Writes chats with the chat template of a tokenizer, as ``apply_chat_template`` does.

    transformers renders in jinja2's immutable sandbox, which keeps a template from attributes that
    lead out of it, and bounds neither time nor size: that is done here. A special token that
    stands in a message is read as that token, as it is by ``apply_chat_template``.

    Attributes:
        source: the template's text, or its texts by name.
        end: the special token that it writes first behind an answer; None where there is none,
            and the tokenizer's own end token ends an output.
    """

    @classmethod
    def of(cls, tokenizer: LoadedTokenizer) -> "ChatTemplate | None":
        """Return a tokenizer's chat template, if it has one."""
        source = _source(tokenizer)
        return cls(tokenizer, source) if source else None

    def __init__(self, tokenizer: LoadedTokenizer, source: Any) -> None:  # noqa: ANN401
        """Find out how an answer ends. Raises InputError where the template cannot be used."""
        from transformers import PreTrainedTokenizerFast

        self.source, self._path = source, tokenizer.path
        with self._told():
            _refuse_powers(source)
            self._writer = PreTrainedTokenizerFast(
                tokenizer_object=tokenizer.tokenizer,
                chat_template=source,
                **_special_tokens(tokenizer),
            )
        question, answer = ({"role": r, "content": _PROBE} for r in ("user", "assistant"))
        _, found, self._tail = self._write([question, answer], None).rpartition(_PROBE)
        if not found:
            raise InputError(f"{self._path}: the chat template writes no answers; {_ADVICE}")
        self.end, before = _first_special(tokenizer, self._tail)
        self._before_end = before

    def apply(self, corpus: Corpus) -> Corpus:
        """Return a corpus of chats with their prompts and outputs; any other as it is."""
        if not corpus.is_chat:
            return corpus
        made = ((e.input, *self.write(e.turn)) for e in corpus.examples if e.turn)
        examples = tuple(Example(text, output, prompt) for text, prompt, output in made)
        return replace(corpus, examples=examples, end=self.end)

    def write(self, turn: Turn) -> tuple[str, str]:
        """Return the prompt, and the answer as it is written after it, up to its end token.

        Raises:
            InputError: the template refuses the chat, or does not write a prompt and its answer as
                the prompt alone and what follows it.
        """
        prompt = self._write(turn.before, turn.tools, prompt=True)
        whole = self._write([*turn.before, turn.answer], turn.tools)
        answer = whole[len(prompt) :]
        if not (whole.startswith(prompt) and answer.endswith(self._tail)):
            raise InputError(
                f"{self._path}: the chat template writes an answer otherwise than after its "
                f"prompt, saw {whole[-60:]!r}; {_ADVICE}"
            )
        return prompt, answer[: len(answer) - len(self._tail)] + self._before_end

    def prompt(self, messages: Sequence[Message]) -> str:
        """Return what a model reads before it answers the last message."""
        return self._write(messages, None, prompt=True)

    def _write(self, messages: Sequence[Message], tools: Any, *, prompt: bool = False) -> str:  # noqa: ANN401
        with self._told(), _short(), _small():
            text: str = self._writer.apply_chat_template(
                list(messages), tools=tools, add_generation_prompt=prompt, tokenize=False
            )
        if len(text) > _LONGEST:
            raise InputError(
                f"{self._path}: the chat template writes {len(text):,} characters for one chat, at "
                f"most {_LONGEST:,} can be encoded; {_ADVICE}"
            )
        return text

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell of whatever a template raises in one line."""
        try:
            yield
        except Exception as error:  # of jinja2, and what Python raises for a template's operations
            raise InputError(f"{self._path}: chat template: {one_line(error)}; {_ADVICE}") from None


def _source(tokenizer: LoadedTokenizer) -> Any:  # noqa: ANN401
    """Return the chat template, as text or as texts with their names; None where there is none."""
    files = tokenizer.files
    if _FILE in files:
        return text_of(files[_FILE], f"{tokenizer.path}: {_FILE}")
    for name in (_OLD, _CONFIG):
        config = json_object(files.get(name, b"{}"), f"{tokenizer.path}: {name}")
        if isinstance(config.get("chat_template"), str | list):
            return config["chat_template"]
    return None


def _special_tokens(tokenizer: LoadedTokenizer) -> dict[str, str]:
    """Return the tokens that a template may name, as bos_token."""
    name = f"{tokenizer.path}: {_CONFIG}"
    found = {}
    for key, entry in json_object(tokenizer.files.get(_CONFIG, b"{}"), name).items():
        content = entry.get("content") if isinstance(entry, dict) else entry
        if key.endswith("_token") and isinstance(content, str):
            found[key] = content
    return found


def _first_special(tokenizer: LoadedTokenizer, tail: str) -> tuple[str | None, str]:
    """Return the special token that stands first in ``tail``, and what stands before it."""
    names = [tokenizer.tokenizer.id_to_token(i) for i in tokenizer.special_ids]
    found = [(tail.find(name), -len(name), name) for name in names if name and name in tail]
    return (min(found)[2], tail[: min(found)[0]]) if found else (None, "")


def _refuse_powers(source: Any) -> None:  # noqa: ANN401
    """Refuse a power, which alone can take for ever without a step in between."""
    from jinja2 import Environment

    for text in [source] if isinstance(source, str) else [entry["template"] for entry in source]:
        words = [word for _, kind, word in Environment().lex(text) if kind != "whitespace"]
        for before, word in pairwise(words):
            if word == "**" and before not in ("(", ","):
                raise ValueError("it raises a number to a power (**), which no chat needs")


@contextmanager
def _short() -> Iterator[None]:
    """Raise TimeoutError where a template takes too long: nothing else stops its loops."""
    end, before = time.monotonic() + _SECONDS, sys.gettrace()

    def look(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401, ARG001
        if time.monotonic() > end:
            raise TimeoutError(f"it takes more than {_SECONDS:.0f} s for one chat")
        return look if frame.f_code.co_filename == "<template>" else None

    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _small() -> Iterator[None]:
    """Let the process take little more memory, so that a template cannot fill the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):  # no Linux
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        most = int(pages) * resource.getpagesize() + _MEMORY
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
