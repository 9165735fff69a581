"""What the user names as data: where it is, which columns are used, and how a prompt is written."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from string import Formatter

from tasc.errors import InputError

BUILTIN = "builtin:"
CUT = re.compile(r"\.[0-9]+")
INPUT_FIELD = "input"  # in a template: the input column, whatever it is called


@dataclass(frozen=True)
class Source:
    """A task's data.

    Raises:
        InputError: the template is malformed or shows the output.
    """

    # ``builtin:NAME``, a file (JSONL, JSON, CSV, TSV or Parquet, also .gz), a folder with one file
    # for each split, or a Hub id.
    path: str
    input_column: str = "input"  # column of the inputs; a list-valued one is taken as words
    output_column: str = "output"  # column of the expected outputs; likewise
    # The prompt; ``{input}`` is the input, any other ``{name}`` that column of the row,
    # ``{name:.200}`` its first 200 characters, and ``{{`` and ``}}`` are braces.
    template: str = "{input}\n"
    config: str | None = None  # configuration of a Hub data set, where it has several
    # Those of the fields above that the user named, be it as the defaults are; data of other
    # shapes are recognised by their columns where none of these are named.
    named: frozenset[str] = frozenset()
    # Whether the columns hold messages, of which an example is made for each answer.
    chat: bool = False
    tools_column: str | None = None  # of chats, the column of what functions the assistant may call

    def __post_init__(self) -> None:
        """Check the template before any data is read."""
        if not self.path:
            raise InputError("the data source is empty: give builtin:NAME, a path or a Hub id")
        names = [name for _, name, _ in template_parts(self.template) if name is not None]
        if not names:
            raise InputError(f"the template {self.template!r} names no column: write {{input}}")
        if self.output_column in names and self.output_column != INPUT_FIELD:
            raise InputError(
                f"the template {self.template!r} shows the output column "
                f"{self.output_column!r}: the model would be given the answer: take it out"
            )

    def names(self, *fields: str) -> bool:
        """Say whether the user named one of ``fields``, or it is not as the defaults are."""
        return any(
            field in self.named or getattr(self, field) != getattr(Source, field)
            for field in fields
        )

    def with_input(self) -> "Source":
        """Return the source; where nobody names the input, it is the template's first column."""
        shown = [name for _, name, _ in template_parts(self.template) if name is not None]
        if self.chat or INPUT_FIELD in shown or self.names("input_column"):
            return self
        return replace(self, input_column=shown[0])

    def columns(self) -> tuple[str, ...]:
        """Return the columns that are read, each once: input, output, the template's, tools."""
        shown = self.template_columns()
        wanted = (self.input_column, self.output_column, *shown, self.tools_column)
        return tuple(dict.fromkeys(name for name in wanted if name))

    def template_columns(self) -> tuple[str, ...]:
        """Return the columns that the template names besides the input."""
        names = (name for _, name, _ in template_parts(self.template))
        return tuple(name for name in names if name and name != INPUT_FIELD)

    def prompt(self, text: str, row: Mapping[str, str]) -> str:
        """Write the prompt of one row: ``text`` is its input, ``row`` its other columns."""
        fields = {**row, INPUT_FIELD: text}
        return "".join(
            literal + (format(fields[name], cut) if name is not None else "")
            for literal, name, cut in template_parts(self.template)
        )


def template_parts(template: str) -> list[tuple[str, str | None, str]]:
    """Split a template into (literal text, name of the column after it or None, cut).

    Only ``{name}`` and ``{name:.N}`` are taken: no attributes, indices, conversions, other formats.
    """
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise InputError(
            f"the template {template!r} cannot be read ({error}); write braces as {{{{ and }}}}"
        ) from None
    for _, name, cut, conversion in parts:
        if name is None:
            continue
        if (cut and not CUT.fullmatch(cut)) or conversion or not name or set(name) & set(".[]"):
            raise InputError(
                f"the template {template!r} may only hold {{column}}, or {{column:.200}} for its "
                f"first 200 characters, without attributes, indices or formats; saw one at {name!r}"
            )
    return [(literal, name, cut or "") for literal, name, cut, _ in parts]
