"""Small files of strangers that are read whole: their size and their JSON are checked."""

import json
from pathlib import Path
from typing import Any

from tasc.data.foreign import one_line
from tasc.errors import InputError


def read_whole(path: Path, most: int) -> bytes:
    """Return the contents of a file; InputError where it has more than ``most`` bytes."""
    with path.open("rb") as file:
        contents = file.read(most + 1)
    if len(contents) > most:
        raise InputError(f"{path}: larger than {most:,} bytes; give the right file")
    return contents


def text_of(contents: bytes, name: str) -> str:
    """Decode UTF-8; ``name`` stands in the error."""
    try:
        return contents.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 ({error}): save it as UTF-8") from None


def json_object(contents: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object whose texts are all Unicode; ``name`` stands in the error.

    Raises:
        InputError: it is no JSON, no object, nested too deeply, or holds half a surrogate pair.
    """
    try:
        value = json.loads(text_of(contents, name))
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{name} is not JSON: {one_line(error)}; mend it or take it away"
        ) from None
    if not isinstance(value, dict):
        raise InputError(
            f"{name}: expected a JSON object, saw a {type(value).__name__}; mend it or take it away"
        )
    return value
