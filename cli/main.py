"""Assemble the sub-commands; turn errors a user can meet into one line and exit code 2."""

import signal
import sys
from typing import Annotated, NoReturn

import typer

from tasc import __version__
from tasc.disk import refusal
from tasc.errors import TascError

from . import analyze, augment, base, bench, doctor, finetune, index, run, vocab

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Make a small language model fast on a narrow task: analyze the task, augment the "
    "tokenizer, finetune, and bench lossless speculative decoding.",
)
app.command("analyze")(analyze.analyze)
app.command("augment")(augment.augment)
app.command("finetune")(finetune.finetune)
app.command("bench")(bench.bench)
app.command("index")(index.index)
app.command("vocab")(vocab.vocab)
app.command("run")(run.run)
app.command("base")(base.base)
app.command("doctor")(doctor.doctor)


_INTERRUPTED = 130  # 128 + SIGINT


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tasc {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Hold the options that stand before a sub-command."""


def main(arguments: list[str] | None = None) -> None:
    """Run ``tasc``. Exit code 2 means that the input, the options, or the machine must change."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a batch system's end is tidy, too
    try:
        app(args=arguments)
    except TascError as error:
        _refuse(str(error))
    except Exception as error:
        refused = refusal(error)  # a folder that vanished, a full disk where a library writes
        if refused is None:
            raise
        what = f"{refused.filename}: {refused.strerror}" if refused.filename else str(refused)
        _refuse(f"the system refused: {what}; is there room and permission?")
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:  # typer takes the interrupt itself and says nothing
            typer.echo("interrupted: no half-written folder was left; run again", err=True)
        raise


def _refuse(why: str) -> NoReturn:
    """Give the reason in one line, whatever characters the names in it have."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in why)
    typer.echo(f"error: {shown}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
