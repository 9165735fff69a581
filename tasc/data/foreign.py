"""Input of unknown origin: errors of other libraries in one line, and small files read whole."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasc.data.quiet import captured_stderr
from tasc.errors import InputError

_LONGEST = 300  # characters


def one_line(error: BaseException) -> str:
    """Return the message of the error's first cause in one line, or its type if it has none."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


@contextmanager
def as_input_error(what: str, advice: str) -> Iterator[None]:
    """Turn every error of the tokenizers library into an InputError, "what: the reason; advice".

    The library raises bare Exception. If its Rust code panics, pyo3 raises a BaseException and the
    panic prints to stderr; this output is dropped.
    """
    with captured_stderr() as drop_output:
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception):
                if not is_panic(error):
                    raise
                drop_output()
            raise InputError(f"{what}: {one_line(error)}; {advice}") from None


def is_panic(error: BaseException) -> bool:
    """Return whether Rust code panicked; pyo3 does not export the class."""
    return type(error).__name__ == "PanicException"


def read_whole(path: Path, most: int) -> bytes:
    """Return the contents of a file; InputError if it has more than ``most`` bytes."""
    with path.open("rb") as file:
        contents = file.read(most + 1)
    if len(contents) > most:
        raise InputError(f"{path} is larger than {most:,} bytes: pass another file")
    return contents


def text_of(contents: bytes, name: str) -> str:
    """Decode UTF-8; ``name`` is used in the error."""
    try:
        return contents.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 ({error}): save it as UTF-8") from None


def json_value(text: str) -> Any:  # noqa: ANN401
    """Return the value of a JSON text. Raises ValueError also for NaN, which is not JSON."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def json_object(contents: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object; ``name`` is used in the error.

    Raises InputError if it is none, is nested too deeply, or has a text that is not Unicode.
    """
    try:
        value = json.loads(text_of(contents, name))
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not JSON: {one_line(error)}; fix or remove it") from None
    if not isinstance(value, dict):
        raise InputError(
            f"{name} is a JSON {type(value).__name__}, not an object: fix or remove it"
        )
    return value
