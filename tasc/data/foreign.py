"""Errors of other libraries, told in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from tasc.data.quiet import held_stderr
from tasc.errors import InputError

_LONGEST = 300  # characters


def one_line(error: BaseException) -> str:
    """Return the message of the error's first cause as one line, or its type when it has none."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


@contextmanager
def told(what: str, advice: str) -> Iterator[None]:
    """Make one InputError, "what: the reason; advice", of whatever the tokenizers library raises.

    It raises bare Exception for what it finds wrong; where its Rust code panics, pyo3 raises a
    BaseException, and the panic has written to the terminal before: that is held back.
    """
    with held_stderr() as held:
        try:
            yield
        except Exception as error:
            raise InputError(f"{what}: {one_line(error)}; {advice}") from None
        except BaseException as error:
            if not is_panic(error):
                raise
            held.drop()
            raise InputError(f"{what}: {one_line(error)}; {advice}") from None


def is_panic(error: BaseException) -> bool:
    """Whether Rust code panicked; pyo3 gives the class a name only."""
    return type(error).__name__ == "PanicException"
