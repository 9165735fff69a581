"""The new tokens, and the base tokens that were kept, as stored in ``merges.json``."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tasc.errors import InputError, IntegrityError
from tasc.options.fields import explain

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


@dataclass(frozen=True)
class TokenizerChange:
    """What ``tasc augment`` changed in a tokenizer."""

    merges: tuple[NewToken, ...]  # in order of acceptance; ids count on from the kept tokens
    kept: tuple[int, ...] | None = None  # ids in the base tokenizer; None: all


_CHANGE = TypeAdapter(TokenizerChange)


def write_merges(folder: Path, change: TokenizerChange) -> None:
    """Write ``merges.json`` into the folder."""
    text = json.dumps(asdict(change), ensure_ascii=False)
    (folder / MERGES_FILE).write_text(text + "\n", encoding="utf-8")


def read_merges(folder: Path) -> TokenizerChange:
    """Return what was changed in an augmented tokenizer's folder.

    Raises InputError if there is no merges.json, and IntegrityError if it cannot be read.
    """
    path = folder / MERGES_FILE
    if not path.is_file():
        raise InputError(f"{folder} has no {MERGES_FILE}: use a folder that `tasc augment` wrote")
    try:
        return _CHANGE.validate_json(path.read_bytes())
    except ValidationError as error:
        why = explain(error.errors())[0]
    except OSError as error:
        why = str(error)
    raise IntegrityError(f"{path} is not a list of merges ({why}): run `tasc augment` again")
