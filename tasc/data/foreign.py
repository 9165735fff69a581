"""Errors of other libraries, told in one line."""

_LONGEST = 300  # characters


def one_line(error: BaseException) -> str:
    """Return the message of the error's first cause as one line, or its type when it has none."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
