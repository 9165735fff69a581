"""A data source as the user describes it: its path, its columns and its prompt template."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from string import Formatter

from tasc.errors import InputError

BUILTIN = "builtin:"
CUT = re.compile(r"\.[0-9]+")
AUTO = "auto"
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}  # of CSV files
INPUT_FIELD = "input"  # in a template: the input column, whatever its name


@dataclass(frozen=True)
class Source:
    """A task's data. Raises InputError if the template is malformed or shows the output."""

    # ``builtin:NAME``, a file (JSONL, JSON, CSV, TSV or Parquet, also .gz), a folder with a file
    # per split, or a Hub id.
    path: str
    input_column: str = "input"  # a list is read as a list of words
    output_column: str = "output"  # the expected outputs; likewise
    # The prompt: ``{input}`` is the input, any other ``{name}`` a column, ``{name:.200}`` its first
    # 200 characters, and ``{{`` and ``}}`` are braces.
    template: str = "{input}\n"
    config: str | None = None  # of a Hub dataset that has several
    separator: str = AUTO  # of CSV files: a name in ``SEPARATORS``, a character, or detected
    # Fields above that the user set, even to their defaults. Columns of other formats are
    # recognised only if none of them is set.
    named: frozenset[str] = frozenset()
    chat: bool = False  # whether the columns hold messages; each answer becomes an example
    tools_column: str | None = None  # of a chat: the functions that the assistant may call
    system_column: str | None = None  # of a chat: the system prompt before the messages
    # Columns whose names are about learning: marks of the row of a chat, and otherwise not read.
    mark_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.path:
            raise InputError("the data source is empty: pass builtin:NAME, a path or a Hub id")
        if self.separator not in {AUTO, *SEPARATORS} and not is_separator(self.separator):
            raise InputError(
                f"separator {self.separator!r:.60} separates no cells: give auto, "
                f"{', '.join(SEPARATORS)}, or one character"
            )
        names = [name for _, name, _ in template_parts(self.template) if name is not None]
        if not names:
            raise InputError(f"the template {self.template!r} has no column: write {{input}}")
        if self.output_column in names and self.output_column != INPUT_FIELD:
            raise InputError(
                f"the template {self.template!r} shows the model the output column "
                f"{self.output_column!r}: remove it"
            )

    def names(self, *fields: str) -> bool:
        """Return whether the user set one of ``fields``, or it differs from its default."""
        return any(
            field in self.named or getattr(self, field) != getattr(Source, field)
            for field in fields
        )

    def with_input(self) -> "Source":
        """Return the source with the template's first column as input unless the user named one."""
        shown = [name for _, name, _ in template_parts(self.template) if name is not None]
        if self.chat or INPUT_FIELD in shown or self.names("input_column"):
            return self
        return replace(self, input_column=shown[0])

    def columns(self) -> tuple[str, ...]:
        """Return the columns to read, each once: input, output, the template's, optional ones."""
        wanted = (self.input_column, self.output_column, *self.template_columns())
        return tuple(dict.fromkeys((*wanted, *self.optional_columns())))

    def optional_columns(self) -> tuple[str, ...]:
        """Return the columns that a row may lack: tools, system prompt and marks of a chat."""
        marks = self.mark_columns if self.chat else ()
        return tuple(name for name in (self.tools_column, self.system_column, *marks) if name)

    def template_columns(self) -> tuple[str, ...]:
        names = (name for _, name, _ in template_parts(self.template))
        return tuple(name for name in names if name and name != INPUT_FIELD)

    def prompt(self, text: str, row: Mapping[str, str]) -> str:
        fields = {**row, INPUT_FIELD: text}
        return "".join(
            literal + (format(fields[name], cut) if name is not None else "")
            for literal, name, cut in template_parts(self.template)
        )

    def example(self) -> str:
        """Return a prompt with "your NAME" in the place of each column."""
        return self.prompt("your input", {name: f"your {name}" for name in self.template_columns()})


def is_separator(text: str) -> bool:
    """Return whether cells of a CSV file can be separated by ``text``."""
    return len(text) == 1 and text not in '"\r\n\0' and not text.isalnum()


def template_parts(template: str) -> list[tuple[str, str | None, str]]:
    """Split a template into (literal text, name of the column after it or None, cut).

    Raises InputError for fields other than ``{name}`` and ``{name:.N}``.
    """
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise InputError(
            f"invalid template {template!r} ({error}); write braces as {{{{ and }}}}"
        ) from None
    for _, name, cut, conversion in parts:
        if name is None:
            continue
        if (cut and not CUT.fullmatch(cut)) or conversion or not name or set(name) & set(".[]"):
            raise InputError(
                f"invalid field {name!r} in the template {template!r}: write {{column}}, or "
                "{column:.200} for its first 200 characters"
            )
    return [(literal, name, cut or "") for literal, name, cut, _ in parts]
