"""Fields of options as they are typed on a command line: names, types, defaults and help."""

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
    """A field of options as it is typed."""

    field: str  # its name
    option: str  # what is typed for it, without dashes in front
    annotation: Any  # its type
    default: Any  # ``...`` where it must be given
    help: str  # what a person is told of it
    shell: "Shell"  # what else is to be known
    group: int  # 0 for arguments, 1 for a command's own, 2 for what all have
    of_data: bool = False  # whether it is a field of the source

    @property
    def name(self) -> str:
        """Of the parameter that takes it."""
        return self.option.replace("-", "_")

    @property
    def choices(self) -> tuple[str, ...]:
        """What it may be, where that is a list."""
        parts = (self.annotation, *get_args(self.annotation))  # it may be left out, too
        found = next((part for part in parts if get_origin(part) is Literal), None)
        return get_args(found) if found else ()

    @property
    def parameter(self) -> Any:  # noqa: ANN401
        """The annotation of the parameter that takes it, as typer reads it."""
        kinds = [kind for kind in _kinds(self.annotation) if kind is not type(None)]
        held: Any = kinds[0] if len(kinds) == 1 and kinds[0] in (bool, int, float) else str
        told: dict[str, Any] = {"help": self.help}
        if self.choices:
            numbers = [f"<{kind.__name__}>" for kind in kinds if kind in (int, float)]
            told["metavar"] = f"[{'|'.join([*numbers, *self.choices])}]"
        if not self.group and get_origin(self.annotation) is tuple:
            held = list[held]
        if not self.group:
            return Annotated[held, typer.Argument(show_default=False, **told)]
        told["show_default"] = self.shell.default or True
        flag = f"--{self.option}"
        if held is bool and self.default:
            flag += f"/--no-{self.option}"
        if get_origin(self.annotation) is tuple:
            held = list[held]
        if self.default is None:
            held = held | None
        older = [f"--{alias}" for alias in self.shell.aliases]
        return Annotated[held, typer.Option(flag, *older, **told)]

    @property
    def shown(self) -> Any:  # noqa: ANN401
        """The default as the parser takes it."""
        default = list(self.default) if isinstance(self.default, tuple) else self.default
        return default.replace("\n", "\\n") if isinstance(default, str) else default


def typed(kind: "type[CommandOptions]") -> list[Typed]:
    """Return the fields of ``kind``: arguments first, then what must be given, last the shared."""
    return sorted(_typed(kind), key=lambda field: (field.group, field.default is not ...))


def _typed(kind: "type[CommandOptions]") -> Iterator[Typed]:
    from tasc.options.command import ModelOptions
    from tasc.options.task import Data

    for name, info in kind.model_fields.items():
        shell = _shell(info)
        if Data in (info.annotation, *get_args(info.annotation)):
            yield from _data(info, shell)
            continue
        group = 0 if shell.argument else 2 if name in ModelOptions.model_fields else 1
        option = shell.name or name.replace("_", "-")
        default = ... if info.is_required() else info.default
        yield Typed(name, option, info.annotation, default, info.description or "", shell, group)


def _data(source: "FieldInfo", shell: "Shell") -> Iterator[Typed]:
    """Yield the fields of a source: where it is stands first, unless that may be left out."""
    from tasc.options.task import Data

    needed = source.is_required()
    known = source.default.model_dump() if source.default and not needed else {}
    for name, info in Data.model_fields.items():
        option, group = name.replace("_", "-"), 2
        if name == "path":
            option, group = shell.name or "source", 0 if needed else 1
        default = known.get(name, ... if info.is_required() else info.default)
        if name == "path" and not needed:
            default = known.get(name)
        told = info.description or ""
        yield Typed(name, option, info.annotation, default, told, _shell(info), group, of_data=True)


def _shell(info: "FieldInfo") -> "Shell":
    from tasc.options.fields import Shell

    return next((held for held in info.metadata if isinstance(held, Shell)), Shell())


def _kinds(annotation: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield the plain types that an annotation is made of; a choice is a text."""
    if get_origin(annotation) is Literal:
        yield str
    elif get_origin(annotation) is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif get_args(annotation):
        for part in get_args(annotation):
            yield from _kinds(part) if part is not ... else ()
    else:
        yield annotation
