"""The list of new tokens, as found by the search and stored in ``merges.json``."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tasc.errors import InputError, IntegrityError
from tasc.options.explain import explain

MERGES_FILE = "merges.json"


@dataclass(frozen=True)
class NewToken:
    """One new token of a tokenizer."""

    ids: tuple[int, ...]  # the merged n-gram: base ids and earlier new ids
    new_id: int
    string: str
    frequency: int  # weighted, non-overlapping, in the training outputs at that round
    reward: int  # frequency * (len(ids) - 1)
    pcs: float
    base_ids: tuple[int, ...]  # the same text in base tokens, whose mean row initialises its row


_TOKENS = TypeAdapter(list[NewToken])


def write_merges(folder: Path, tokens: Iterable[NewToken]) -> None:
    """Write ``merges.json`` into the folder."""
    text = json.dumps({"merges": [asdict(token) for token in tokens]}, ensure_ascii=False)
    (folder / MERGES_FILE).write_text(text + "\n", encoding="utf-8")


def read_merges(folder: Path) -> list[NewToken]:
    """Return the new tokens of an augmented tokenizer's folder, in order of acceptance.

    Raises InputError if there is no merges.json, and IntegrityError if it cannot be read.
    """
    path = folder / MERGES_FILE
    if not path.is_file():
        raise InputError(f"{folder} has no {MERGES_FILE}: use a folder that `tasc augment` wrote")
    try:
        return _TOKENS.validate_python(json.loads(path.read_text(encoding="utf-8"))["merges"])
    except ValidationError as error:
        why = explain(error.errors())[0]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        why = str(error)
    raise IntegrityError(f"{path} is not a list of merges ({why}): run `tasc augment` again")
