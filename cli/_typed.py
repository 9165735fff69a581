"""Parameters of the command line, derived from option fields: names, types, defaults, help."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from tasc.options.command import CommandOptions
    from tasc.options.fields import Shell


@dataclass(frozen=True)
class Typed:
    """An option field as a parameter."""

    field: str
    option: str  # name on the command line, without the leading dashes
    annotation: Any
    default: Any  # ``...`` if it is required
    help: str
    shell: "Shell"
    group: int  # 0 for arguments, then options: 1 the command's own, 2 inherited, 3 common
    of_data: bool = False  # whether it is a field of the data source

    @property
    def name(self) -> str:
        return self.option.replace("-", "_")

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a Literal; empty for other types."""
        parts = (self.annotation, *get_args(self.annotation))  # also of ``Literal[...] | None``
        literal = next((part for part in parts if get_origin(part) is Literal), None)
        return get_args(literal) if literal else ()

    @property
    def parameter(self) -> Any:  # noqa: ANN401
        kinds = [kind for kind in _kinds(self.annotation) if kind is not type(None)]
        plain: Any = kinds[0] if len(kinds) == 1 and kinds[0] in (bool, int, float) else str
        kind: Any = list[plain] if get_origin(self.annotation) is tuple else plain
        shown: dict[str, Any] = {"help": self.help, "show_default": isinstance(self.default, str)}
        if self.choices:
            numbers = [f"<{number.__name__}>" for number in kinds if number in (int, float)]
            shown["metavar"] = f"[{'|'.join([*numbers, *self.choices])}]"
        if not self.group:
            return Annotated[kind, typer.Argument(**shown)]
        flag = f"--{self.option}"
        if plain is bool and self.default:
            flag += f"/--no-{self.option}"
        if self.default is None:
            kind = kind | None
        older = [f"--{alias}" for alias in self.shell.aliases]
        shown["show_default"] = self.shell.default or True
        return Annotated[kind, typer.Option(flag, *older, **shown)]

    @property
    def shown(self) -> Any:  # noqa: ANN401
        default = list(self.default) if isinstance(self.default, tuple) else self.default
        return default.replace("\n", "\\n") if isinstance(default, str) else default


def typed(kind: "type[CommandOptions]") -> list[Typed]:
    """Return the parameters of a class: arguments, required options, others, common options."""
    return sorted(_typed(kind), key=lambda field: (field.group, field.default is not ...))


def _typed(kind: "type[CommandOptions]") -> Iterator[Typed]:
    from tasc.options.command import ModelOptions
    from tasc.options.task import Data

    for name, info in kind.model_fields.items():
        shell = _shell(info)
        if Data in (info.annotation, *get_args(info.annotation)):
            yield from _data(info, shell)
            continue
        default_group = 1 if name in kind.__annotations__ else 2
        group = 0 if shell.argument else 3 if name in ModelOptions.model_fields else default_group
        option = shell.name or name.replace("_", "-")
        default = ... if info.is_required() else info.default
        yield Typed(
            field=name,
            option=option,
            annotation=info.annotation,
            default=default,
            help=info.description or "",
            shell=shell,
            group=group,
        )


def _data(source: "FieldInfo", shell: "Shell") -> Iterator[Typed]:
    """Yield the fields of a data source. Its path is an argument unless it is optional."""
    from tasc.options.task import Data

    needed = source.is_required()
    defaults = source.default.model_dump() if source.default and not needed else {}
    for name, info in Data.model_fields.items():
        option = name.replace("_", "-")
        group = 3
        default = defaults.get(name, ... if info.is_required() else info.default)
        if name == "path":
            option = shell.name or "source"
            group = 0 if needed else 1
            default = ... if needed else defaults.get(name)
        yield Typed(
            field=name,
            option=option,
            annotation=info.annotation,
            default=default,
            help=info.description or "",
            shell=_shell(info),
            group=group,
            of_data=True,
        )


def _shell(info: "FieldInfo") -> "Shell":
    from tasc.options.fields import Shell

    return next((entry for entry in info.metadata if isinstance(entry, Shell)), Shell())


def _kinds(annotation: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield the plain types in an annotation; a Literal counts as str."""
    if get_origin(annotation) is Literal:
        yield str
    elif get_origin(annotation) is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif get_args(annotation):
        for part in get_args(annotation):
            yield from _kinds(part) if part is not ... else ()
    else:
        yield annotation
