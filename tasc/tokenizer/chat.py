"""A tokenizer's chat template, with limits on its time and memory."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE

from tasc.data.chat import Turn
from tasc.data.corpus import Corpus, Example
from tasc.data.foreign import one_line, text_of
from tasc.data.message import CALLS, FORMAT, Message
from tasc.errors import InputError
from tasc.tokenizer.forked import Forked
from tasc.tokenizer.loaded import LoadedTokenizer

_CONFIG, _FILE, _OLD = "tokenizer_config.json", "chat_template.jinja", "chat_template.json"
_PROBE = "tasc-probe"
_REASONING = ("reasoning_content", "reasoning", "thinking")  # keys of a message
_OPENING = re.compile(r"<[^<>]+>|\[[^][]+\]")  # a tag such as <think>
_PIECES = re.compile(rf"({_OPENING.pattern})")  # templates change the white space beside tags
_SECONDS = 10.0  # per chat
_LONGEST = 4 << 20  # characters of a chat, which is encoded as one text
_MOST_KEYS = 8  # of messages, in a line
_MEMORY = 1 << 30  # bytes per chat
_ADVICE = "fix the chat template, or pass --template '{input}\\n'"


@dataclass(frozen=True)
class _StoppedClock:
    """Stands in for the class ``datetime`` in ``strftime_now``."""

    time: datetime

    def now(self) -> datetime:
        return self.time


class ChatTemplate:
    """Writes chats with ``apply_chat_template``.

    transformers renders templates in jinja2's immutable sandbox, which limits neither time nor
    size, so a process of its own does. The text of a special token in a message becomes that token.

    A template's clock (``strftime_now``) stands still at ``now``, so that prompts of one run agree.

    Attributes:
        source: the template's text, or its texts by name.
        end: the first special token after an answer; None if there is none, and outputs end with
            the tokenizer's own end token.
    """

    @classmethod
    def of(cls, tokenizer: LoadedTokenizer, now: datetime | None = None) -> "ChatTemplate | None":
        """Return a tokenizer's chat template; None if it has none."""
        source = source_of(tokenizer)
        return cls(tokenizer, source, now) if source else None

    def __init__(
        self,
        tokenizer: LoadedTokenizer,
        source: Any,  # noqa: ANN401 - a text, or texts by name
        now: datetime | None = None,
    ) -> None:
        """Render a probe to learn how an answer ends. Raises InputError if the template fails."""
        from transformers import PreTrainedTokenizerFast

        self.source, self._path = source, tokenizer.path
        self._now = now or datetime.now()
        with self._as_input_error():
            # Templates see the special tokens, and no vocabulary, which takes seconds to copy.
            self._writer = PreTrainedTokenizerFast(
                tokenizer_object=Tokenizer(BPE()),
                chat_template=source,
                **tokenizer.named_tokens(_CONFIG),
            )
        self._forked = Forked(self._render, _SECONDS, _MEMORY)
        question, answer = ({"role": r, "content": _PROBE} for r in ("user", "assistant"))
        _, answer_mark, self._tail = self._write([question, answer], None).rpartition(_PROBE)
        if not answer_mark:
            raise InputError(f"{self._path}: the chat template drops the answers; {_ADVICE}")
        self.end, self._before_end = _first_special(tokenizer, self._tail)

    def apply(self, corpus: Corpus) -> Corpus:
        """Return a corpus of chats with prompts and outputs; other corpora do not change."""
        if not corpus.is_chat:
            return corpus
        examples = tuple(self._written(e, e.turn) for e in corpus.examples if e.turn)
        return replace(corpus, examples=examples, end=self.end)

    def _written(self, example: Example, turn: Turn) -> Example:
        prompt, output = self.write(turn)
        return Example(example.input, output, prompt, own_output=example.output)

    @property
    def date_note(self) -> str:
        """A line on the date that the template can write; empty if it cannot."""
        if "strftime_now" not in str(self.source):
            return ""
        return (
            f"{self._path}: the chat template may write the date into prompts; this run writes "
            f"{self._now:%Y-%m-%d %H:%M}, and prompts of another day differ"
        )

    def spacing_note(self, corpora: Iterable[Corpus]) -> str:
        """Return a line on answers whose white space the template changes; empty without any."""
        written = {corpus.split: corpus.examples for corpus in corpora}
        counts = {split: sum(map(_is_respaced, examples)) for split, examples in written.items()}
        changed = " and ".join(f"{n:,} of {split}" for split, n in counts.items() if n)
        if not changed:
            return ""
        return (
            f"{self._path}: the chat template changes the white space at the ends or beside tags "
            f"of answers, and the template's text is learnt: {changed}"
        )

    def unread_note(self, corpora: Iterable[Corpus]) -> str:
        """Return a line on keys of messages that the template does not read; empty without any.

        It reads a key that its text contains, or that changes what it writes for the first chat.
        ``corpora`` are not yet written.
        """
        counts, turns = _further_keys(corpora)
        unread = [key for key, turn in turns.items() if not self._reads(key, turn)]
        if not unread:
            return ""
        listed = ", ".join(f"{key!r:.40} ({counts[key]:,} messages)" for key in unread[:_MOST_KEYS])
        more = f" and {len(unread) - _MOST_KEYS} more" if len(unread) > _MOST_KEYS else ""
        return (
            f"{self._path}: the chat template does not read these keys of messages, so they have "
            f"no effect: {listed}{more}"
        )

    def _reads(self, key: str, turn: Turn) -> bool:
        if re.search(rf"(?<!\w){re.escape(key)}(?!\w)", str(self.source)):
            return True
        messages = [*turn.before, turn.answer]
        without = [{k: v for k, v in each.items() if k != key} for each in messages]
        return self._write(messages, turn.tools) != self._write(without, turn.tools)

    def prompt(self, messages: Sequence[Message], tools: Any = None) -> str:  # noqa: ANN401
        """Return the prompt for an answer to ``messages``, which may call ``tools``.

        Raises InputError if the template rejects them.
        """
        return self._write(messages, tools, prompt=True)

    def write(self, turn: Turn) -> tuple[str, str]:
        """Return the prompt, and the answer up to its end token.

        The prompt is the template's own, also where it ends with text that the template does not
        write before an answer that was given, such as ``<think>``. White space at the ends of the
        answer's text and beside tags is the template's. Raises InputError if the template rejects
        the chat, does not write the answer after its prompt, or drops a part of it.
        """
        prompt = self._write(turn.before, turn.tools, prompt=True)
        whole = self._write([*turn.before, turn.answer], turn.tools)
        begin = len(prompt) if whole.startswith(prompt) else self._begin(turn, prompt, whole)
        answer = whole[begin:]
        if not answer.endswith(self._tail):
            raise self._otherwise(whole)
        output = answer[: len(answer) - len(self._tail)] + self._before_end
        self._refuse_dropped(turn, prompt, output)
        return prompt, output

    def _refuse_dropped(self, turn: Turn, prompt: str, output: str) -> None:
        """Raise InputError if the template drops text, reasoning or calls of the answer."""
        dropped = [name for name, text in _said(turn.answer) if not _has(output, text)]
        if not dropped:
            return
        # The prompt may end with the first tag of the answer.
        history = self._write(turn.before, turn.tools)
        written = (prompt[len(history) :] if prompt.startswith(history) else "") + output
        dropped = [name for name, text in _said(turn.answer) if not _has(written, text)]
        if dropped:
            raise InputError(
                f"{self._path}: the chat template drops all or part of the {dropped[0]} of the "
                f"answer {turn.output!r:.80} and writes {output!r:.80}: remove from the answer "
                'what the template drops, give the answer "weight": 0, or pass --template '
                "'{input}\\n'"
            )

    def _begin(self, turn: Turn, prompt: str, whole: str) -> int:
        """Return where an answer begins whose prompt ends with text that ``whole`` lacks.

        Another answer in its place shows the template's text before any answer. Raises InputError
        if the prompt is not that and the added text, or if the answer has reasoning that the
        template drops or writes beside the added text.
        """
        probe = {"role": "assistant", "content": _PROBE}
        before = self._write([*turn.before, probe], turn.tools).rpartition(_PROBE)[0]
        if not before or not (prompt.startswith(before) and whole.startswith(before)):
            raise self._otherwise(whole)
        answer, content = whole[len(before) :], turn.output.strip()
        added = prompt[len(before) :]
        reasoned = {name for name, _ in _said(turn.answer)} & {*_REASONING}
        opening = _OPENING.match(added.lstrip())
        twice = opening is not None and answer.lstrip().startswith(opening[0])
        if content in answer and not reasoned and not twice:
            return len(before)
        wrong = "does not write the whole answer after it"
        if twice:
            wrong = f"the answer begins with {answer[: len(added) + 10]!r:.80}"
        elif reasoned:
            wrong = f"the answer has {min(reasoned)}, which the template does not write"
        raise InputError(
            f"{self._path}: the chat template ends prompts with {added!r:.80}, but {wrong}: begin "
            "the answer's content with exactly that text, remove the reasoning, or pass "
            "--template '{input}\\n'"
        )

    def _otherwise(self, whole: str) -> InputError:
        return InputError(
            f"{self._path}: the chat template does not write the answer after its prompt, but "
            f"{whole[-60:]!r}; {_ADVICE}"
        )

    def _write(self, messages: Sequence[Message], tools: Any, *, prompt: bool = False) -> str:  # noqa: ANN401
        with self._as_input_error():
            return self._forked([list(messages), tools, prompt])

    def _render(self, chat: Any) -> str:  # noqa: ANN401 - JSON values
        from transformers.utils import chat_template_utils

        messages, tools, prompt = chat
        # transformers has no option for the time of ``strftime_now``. This process has its own copy
        # of the module.
        vars(chat_template_utils)["datetime"] = _StoppedClock(self._now)
        text: str = self._writer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=prompt, tokenize=False
        )
        if len(text) > _LONGEST:
            raise ValueError(
                f"it writes {len(text):,} characters for one chat; at most {_LONGEST:,}"
            )
        return text

    @contextmanager
    def _as_input_error(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of jinja2, or of Python for a template's operations
            raise InputError(f"{self._path}: chat template: {one_line(error)}; {_ADVICE}") from None


def source_of(tokenizer: LoadedTokenizer) -> Any:  # noqa: ANN401
    """Return the chat template, a text or a list of named texts; None if there is none."""
    if _FILE in tokenizer.files:
        return text_of(tokenizer.files[_FILE], f"{tokenizer.path}: {_FILE}")
    stated = (tokenizer.config(name).get("chat_template") for name in (_OLD, _CONFIG))
    return next((text for text in stated if isinstance(text, str | list)), None)


def _further_keys(corpora: Iterable[Corpus]) -> tuple[Counter[str], dict[str, Turn]]:
    """Return how many messages have each key that is not of the format, and a turn with it."""
    counts, turns, seen = Counter[str](), dict[str, Turn](), set[int]()
    turns_or_none = (example.turn for corpus in corpora for example in corpus.examples)
    for turn in (turn for turn in turns_or_none if turn):
        for message in (*turn.before, turn.answer):
            if id(message) not in seen:  # the turns of a chat share its messages
                seen.add(id(message))
                for key in (key for key in message if key not in FORMAT):
                    counts[key] += 1
                    turns.setdefault(key, turn)
    return counts, turns


def _said(answer: Message) -> Iterator[tuple[str, str]]:
    """Yield the texts that a template has to write for an answer, each with its key."""
    for key in ("content", *_REASONING):
        if isinstance(answer.get(key), str) and answer[key].strip():
            yield key, answer[key]
    for key in CALLS:
        listed = answer.get(key)
        for call in listed if isinstance(listed, list) else [listed]:
            function = call.get("function", call) if isinstance(call, dict) else None
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                yield key, function["name"]


def _is_respaced(example: Example) -> bool:
    """Return whether an output lacks the row's text; its first tag may stand in the prompt."""
    written_output = example.own_output or ""
    return (
        written_output not in example.output
        and written_output not in example.prompt[-len(written_output) :] + example.output
    )


def _has(written: str, text: str) -> bool:
    """Return whether the pieces of ``text`` between tags, and the tags, follow each other."""
    end = 0
    for piece in filter(None, map(str.strip, _PIECES.split(text))):
        begin = written.find(piece, end)
        if begin < 0:
            return False
        end = begin + len(piece)
    return True


def _first_special(tokenizer: LoadedTokenizer, tail: str) -> tuple[str | None, str]:
    names = [tokenizer.tokenizer.id_to_token(i) for i in tokenizer.special_ids]
    places = [(tail.find(name), -len(name), name) for name in names if name and name in tail]
    return (min(places)[2], tail[: min(places)[0]]) if places else (None, "")
