"""``tasc chat``: talk to a model in the terminal, and see which tokens drafts gave."""

import io
import sys
from typing import TYPE_CHECKING

from rich.text import Text

from tasc.visible import visible

from .._console import err, is_text, note, out
from .._derive import RunFlags
from .._progress import show_progress

if TYPE_CHECKING:
    from tasc.commands.conversation.options import ChatOptions
    from tasc.commands.conversation.talk import Answer, Conversation

_NEW = "/new"
_LONGEST = 60  # characters of what is repeated of a line
# Letters and background both, so that they are read on a light terminal and on a dark one.
_SHADES = {
    "corpus": "#1d2733 on #cfe3f5",
    "past outputs": "#1d2733 on #d3ecd6",
    "prompt": "#1d2733 on #fae1bd",
    "logits": "#1d2733 on #e4daf4",
    "draft model": "#1d2733 on #f8d3d6",
    "draft head": "#1d2733 on #c8ece7",
    "other": "#1d2733 on #dfe3e8",
}


def run(options: "ChatOptions", _flags: RunFlags) -> None:
    """Chat until the input ends."""
    from tasc.commands.context import at_work
    from tasc.commands.conversation.talk import Conversation

    with at_work(options, None) as context:
        with show_progress() as progress:
            progress("loading the model", 0, 0)
            talk = Conversation(options, context)
        _talk(talk)


def _talk(talk: "Conversation") -> None:
    """Answer line by line; on a terminal, which shows a mark for each."""
    from tasc.errors import InputError

    asked, failed = sys.stdin.isatty(), 0
    if asked:
        chats = f", {_NEW} begins a new chat" if talk.template else ""
        note(f"a line is a message{chats}, Ctrl-D ends")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # a broken line ends no conversation
    while (line := _line(asked)) is not None:
        if line == _NEW:
            talk.forget()
        elif line:
            try:
                if not is_text(line):
                    told = f"the line {line[:_LONGEST]!r} is not UTF-8"
                    raise InputError(f"{told}: write it in UTF-8")
                _tell(talk.say(line, _show))
            except InputError as error:
                note(f"error: {error}; or type {_NEW}")
                failed += 1
                if not asked:
                    out.print()  # answers stay beside their questions
    if failed and not asked:
        raise InputError(f"lines that were not answered: {failed}; mend them and ask them again")


def _line(asked: bool) -> str | None:
    """Return the next line, without space around it; None at the end."""
    try:
        return (input("> ") if asked else next(sys.stdin)).strip()
    except (EOFError, StopIteration, KeyboardInterrupt):
        return None


def _show(text: str, source: str) -> None:
    if not out.is_terminal:  # where tabs are to stay
        sys.stdout.write(visible(text))
        sys.stdout.flush()
        return
    style = _SHADES[source] if source and not out.no_color else ""
    out.print(Text(visible(text), style), end="", soft_wrap=True)


def _tell(answer: "Answer") -> None:
    """End an answer by its status line, on stderr: stdout has the answers alone."""
    out.print()
    speed = answer.tokens / answer.seconds if answer.seconds else 0
    status = Text(
        f"{answer.tokens:,} tokens in {answer.steps:,} steps, {answer.tokens_per_step:.2f} a step "
        f"after the prompt's; {speed:,.0f} tokens a second"
    )
    for i, (source, tokens) in enumerate(answer.accepted.items()):
        status.append("; drafted from " if i == 0 else ", ")
        status.append(source, _SHADES[source] if not err.no_color else "")
        status.append(f" {tokens:,}")
    err.print(status, soft_wrap=True)
