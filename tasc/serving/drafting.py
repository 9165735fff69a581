"""``tasc.load_custom_generate``: drafts for transformers, from the folder of an export."""

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tasc.errors import InputError
from tasc.serving.parts import HEAD_FOLDER, INDEX_FOLDER

if TYPE_CHECKING:
    from tasc.decoding.custom_generate import CustomGenerate


def load_custom_generate(folder: str | PathLike[str]) -> "CustomGenerate":
    """Return the decoding method of ``tasc export --to transformers``, from its head or its index.

    Pass it as ``custom_generate`` to the ``generate`` of the model in ``folder``. No code in the
    folder is run.

    Raises:
        InputError: there is neither a head nor an index, or they belong to another model.
        IntegrityError: they are damaged.
    """
    from tasc.decoding.custom_generate import custom_generate
    from tasc.decoding.drafters.ngram.index import load_index, method_for
    from tasc.tokenizer.loaded import load_tokenizer

    head, index = Path(folder) / HEAD_FOLDER, Path(folder) / INDEX_FOLDER
    if head.is_dir():
        return custom_generate(draft_head=head)
    if not index.is_dir():
        raise InputError(f"{folder} has no index: export it again with tasc export --index")
    found = load_index(index, load_tokenizer(str(folder)), copy=True)
    return custom_generate(method_for(found), found)
