"""The ``tasc`` program: its commands, and errors as one line with exit code 2."""

import logging
import os
import re
import signal
import sys
from typing import Annotated, NoReturn, cast

import typer

from tasc import __version__
from tasc.errors import InputError, TascError
from tasc.files.disk import system_error

from ._command import INTERRUPTED, register_all
from ._console import LogLines, note, say

app = typer.Typer(
    pretty_exceptions_enable=False,
    help="Make a small language model fast on a narrow task: analyze the task, add tokens to the "
    "tokenizer, fine-tune, and measure lossless speculative decoding.",
)
register_all(app)

_log_lines = LogLines()
_CLOSED_PIPE = 141  # 128 + SIGPIPE
_MISSING = re.compile("^Missing (?:option|argument) '(.+)'")
_LONGEST = 300  # characters of the parser's message that are shown
_LONG_WORD = re.compile(r"(\S{300})\S{100,}(\S{100})")  # such as a path that no system takes
# The parser's base error; typer exports only this subclass.
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
    """Define the options before a command."""


def main(arguments: list[str] | None = None) -> None:
    """Run ``tasc``.

    Exit code 2: the input, the options or the machine must change. 130: interrupted. 141: stdout is
    a closed pipe.
    """
    # By default torch's threads spin 30 times as long, and one busy core stops a training.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        _main(arguments)
    except (SystemExit, BrokenPipeError) as ended:
        # typer and rich exit with 1, which tasc compare uses for a regression.
        if not any(isinstance(e, BrokenPipeError) for e in (ended, ended.__context__)):
            raise
        _silence()
        sys.exit(_CLOSED_PIPE)


def _silence() -> None:
    """Keep Python from flushing to a closed pipe when it exits."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _main(arguments: list[str] | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # batch systems send SIGTERM
    logging.getLogger("tasc").addHandler(_log_lines)
    try:
        words = sys.argv[1:] if arguments is None else arguments
        _check_text(words)
        code = app(args=words or ["--help"], prog_name="tasc", standalone_mode=False)
    except KeyboardInterrupt:  # before or after typer catches it
        code = INTERRUPTED
    except TascError as error:
        _refuse(str(error))
    except _UsageError as error:
        _refuse(_usage(error))
    except ModuleNotFoundError as error:  # a dependency is missing
        if (error.name or "tasc").startswith("tasc"):
            raise
        _refuse(f"the package {error.name} is not installed: reinstall tasc with pip")
    except Exception as error:
        refused = system_error(error)  # such as a full disk or a deleted folder
        if refused is None:
            raise
        what = f"{refused.filename}: {refused.strerror}" if refused.filename else str(refused)
        _refuse(f"system error: {what}; check free space and permissions, then run again")
    if code == INTERRUPTED:  # typer catches the interrupt and prints nothing
        note("interrupted: no incomplete output is left; run again")
    if sys.stdout:
        sys.stdout.flush()  # raises BrokenPipeError here, where it is handled
    sys.exit(code)


def _refuse(why: str) -> NoReturn:
    note("error: " + _LONG_WORD.sub(r"\1…\2", why))
    sys.exit(2)


def _usage(error: typer.BadParameter) -> str:
    """Return the parser's error in one line, with the command that prints the help."""
    command = error.ctx.command_path if error.ctx else "tasc"
    what = _MISSING.sub(r"give \1", " ".join(error.format_message().split()))
    what = what.rstrip(".")[:_LONGEST]
    return f"{command}: {what[:1].lower()}{what[1:]}: see {command} --help"


def _check_text(arguments: list[str]) -> None:
    """Raise InputError for an argument that is not UTF-8 and cannot be written to a manifest."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:  # Python decodes other bytes to surrogates
            raise InputError(f"the argument {argument!r} is not UTF-8: rename or type it") from None


if __name__ == "__main__":
    main()
