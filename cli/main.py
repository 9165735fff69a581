"""Assemble the sub-commands; turn errors a user can meet into one line and exit code 2."""

import os
import re
import signal
import sys
from typing import Annotated, NoReturn, cast

import typer

from tasc import __version__
from tasc.errors import InputError, TascError
from tasc.files.disk import system_error

from ._command import register_all
from ._console import is_text, note, say

app = typer.Typer(
    pretty_exceptions_enable=False,
    help="Make a small language model fast on a narrow task: analyze the task, augment the "
    "tokenizer, finetune, and bench lossless speculative decoding.",
)
register_all(app)

_INTERRUPTED = 130  # 128 + SIGINT
_CLOSED_PIPE = 141  # 128 + SIGPIPE
_MISSING = re.compile("^Missing (?:option|argument) '(.+)'")
_LONGEST = 300  # characters of what is repeated of a command line
_CHANGED = {"--no-quantize": "--quantize none"}  # how one types today what was an option once
# What the parser raises; typer exports the one below it alone.
_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"tasc {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Hold the options that stand before a sub-command."""


def main(arguments: list[str] | None = None) -> None:
    """Run ``tasc``. Exit code 2 means that the input, the options, or the machine must change.

    141 is that of a program which writes into a pipe that nobody reads any more.
    """
    try:
        _main(arguments)
    except (SystemExit, BrokenPipeError) as ended:
        # typer and rich make exit code 1 of a closed pipe, which is that of a comparison, too.
        if not any(isinstance(e, BrokenPipeError) for e in (ended, ended.__context__)):
            raise
        _silence()
        sys.exit(_CLOSED_PIPE)


def _silence() -> None:
    """Keep Python from writing once more, at its end, into a pipe that is closed."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _main(arguments: list[str] | None) -> NoReturn:
    """Do the work of ``main``."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a batch system's end is tidy, too
    try:
        given = sys.argv[1:] if arguments is None else arguments
        _check_text(given)
        code = app(args=given or ["--help"], prog_name="tasc", standalone_mode=False)
    except TascError as error:
        _refuse(str(error))
    except _UsageError as error:
        _refuse(_usage(error))
    except ModuleNotFoundError as error:  # a package of ours that was taken away, or never came
        if (error.name or "tasc").startswith("tasc"):
            raise
        _refuse(f"the package {error.name} is not installed: install tasc again, with pip")
    except Exception as error:
        refused = system_error(error)  # a folder that vanished, a full disk where a library writes
        if refused is None:
            raise
        what = f"{refused.filename}: {refused.strerror}" if refused.filename else str(refused)
        _refuse(f"the system refused: {what}; check room and permissions, then run again")
    if code == _INTERRUPTED:  # typer takes the interrupt itself and says nothing
        note("interrupted: no half-written folder was left; run again")
    if sys.stdout:
        sys.stdout.flush()  # while a closed pipe can still be answered
    sys.exit(code)


def _refuse(why: str) -> NoReturn:
    note(f"error: {why}")
    sys.exit(2)


def _usage(error: typer.BadParameter) -> str:
    """Tell in one line what the parser of the command line could not read, and where to look."""
    command = error.ctx.command_path if error.ctx else "tasc"
    what = _MISSING.sub(r"give \1", " ".join(error.format_message().split()))
    what = what.rstrip(".")[:_LONGEST]
    option = getattr(error, "option_name", "")
    if option in _CHANGED:
        what = f"type {_CHANGED[option]} for {option}"
    return f"{command}: {what[:1].lower()}{what[1:]}: see {command} --help"


def _check_text(arguments: list[str]) -> None:
    """Refuse bytes that are no text: they could not be written into what describes the run."""
    for argument in arguments:
        if not is_text(argument):
            raise InputError(f"the argument {argument!r} is not UTF-8: rename or type it")


if __name__ == "__main__":
    main()
