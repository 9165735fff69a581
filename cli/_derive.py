"""Commands derived from the classes of their options, so that each option is defined once.

The flags that are not options of the library are defined here: --output, --force, --json and
--resume. A class is imported when its command is used, so ``tasc --help`` imports none.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import fields as fields_of
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from tasc.errors import InputError

from ._typed import Typed, typed

if TYPE_CHECKING:
    from tasc.options.command import CommandOptions


@dataclass(frozen=True)
class RunFlags:
    """The flags of a command line that are not options of the library."""

    output: Annotated[
        str | None, typer.Option(help="Output folder.", show_default="tasc-out/COMMAND")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier output.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON only.")] = False
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the checkpoints of an interrupted run.")
    ] = False


Kind = Callable[[], "type[CommandOptions]"]
Run = Callable[[Any, RunFlags], None]


def register(app: typer.Typer, name: str, help: str, kind: Kind, run: Run) -> None:
    """Add a command whose options are the fields of a class.

    ``kind`` returns the class; ``run`` takes the checked options and the flags.
    """

    class Derived(_Derived):
        function = staticmethod(lambda: _function(kind(), run))

    app.command(name, help=help, cls=Derived)(lambda: None)


class _Derived(TyperCommand):
    """A command whose parameters are created when they are first needed."""

    function: Callable[[], Callable[..., None]]

    @cached_property
    def _made(self) -> Any:  # noqa: ANN401
        app = typer.Typer(add_completion=False)
        app.command()(self.function())
        return get_command(app)

    # TyperCommand sets the placeholder's values, which are ignored.
    params = property(lambda self: self._made.params, lambda *_: None)
    callback = property(lambda self: self._made.callback, lambda *_: None)


def _function(kind: "type[CommandOptions]", run: Run) -> Callable[..., None]:
    """Return a function with the command's signature, for typer to read."""
    fields = typed(kind)
    flags = kind.flags

    def function(context: typer.Context, **values: Any) -> None:  # noqa: ANN401
        sources = {name: context.get_parameter_source(name) for name in values}
        named = {name for name, source in sources.items() if source and source.name != "DEFAULT"}
        options = kind(**_options(fields, values, named))
        run(options, RunFlags(**{name: values[name] for name in flags}))

    parameters = [_parameter("context", typer.Context, ...)]
    parameters += [_parameter(field.name, field.parameter, field.shown) for field in fields]
    flagged = [flag for flag in fields_of(RunFlags) if flag.name in flags]
    parameters += [_parameter(flag.name, flag.type, flag.default) for flag in flagged]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in parameters}
    return function


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:  # noqa: ANN401
    """Return a parameter for typer to read; the default ``...`` means that it is required."""
    default = inspect.Parameter.empty if default is ... else default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _options(fields: list[Typed], values: dict[str, Any], named: set[str]) -> dict[str, Any]:
    # Defaults are not passed on: the data's format is recognised only if no column is given.
    typed = [f for f in fields if f.of_data and (f.name in named or f.field == "path")]
    data = {f.field: values[f.name] for f in typed}
    options = {f.field: values[f.name] for f in fields if not f.of_data and f.name in named}
    if data.get("path") is not None:
        return {"source": data} | options
    if lost := [f"--{f.option}" for f in typed if f.field != "path"]:
        raise InputError(f"{' and '.join(lost)} has no effect without data: add --data")
    return options
