"""``tasc chat``: chat with a model in the terminal; text from drafts is coloured."""

import io
import sys
from typing import TYPE_CHECKING

import typer

from tasc.visible import visible

from .._console import note, out
from .._derive import RunFlags

if TYPE_CHECKING:
    from tasc.commands.conversation_options import ChatOptions

_NEW = "/new"
_TEXT, _DRAFTED = (29, 39, 51), (207, 227, 245)  # readable on light and dark terminals


def run(options: "ChatOptions", _flags: RunFlags) -> None:
    """Answer each line of stdin; print answers to stdout, and figures and errors to stderr."""
    from tasc.commands.context import at_work
    from tasc.commands.conversation import Conversation
    from tasc.errors import InputError

    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    failed = 0
    with at_work(options, None) as context:
        conversation = Conversation(options, context)
        note(f"Each line is a message. {_NEW} starts a new chat, Ctrl-D ends the program.")
        while (line := _line()) is not None:
            if line == _NEW:
                conversation.messages.clear()
            elif line:
                try:
                    found = conversation.answer(line, _show)
                    tokens, seconds = len(found.tokens), found.timeline.total
                    line = f"{tokens:,} tokens in {found.decoding_steps:,} steps, "
                    line += f"{sum(found.accepted):,} from drafts"
                    line += f"; {tokens / max(seconds, 1e-9):,.0f} tokens/s"
                except InputError as error:
                    line, failed = f"error: {error}; or type {_NEW}", failed + 1
                typer.echo()  # end the answer, even an empty one
                note(line)
    if failed and not sys.stdin.isatty():
        raise InputError(f"lines without an answer: {failed}; correct them and send them again")


def _line() -> str | None:
    try:
        return (input("> ") if sys.stdin.isatty() else next(sys.stdin)).strip()
    except (EOFError, StopIteration, KeyboardInterrupt):
        return None


def _show(text: str, drafted: bool) -> None:
    shown = visible(text)
    typer.echo(
        typer.style(shown, _TEXT, _DRAFTED) if drafted and not out.no_color else shown, nl=False
    )
