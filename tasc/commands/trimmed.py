"""Trimmed models that a recipe will make, made before it runs: to be proposed and measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tasc.commands.lengths import with_chat_template
from tasc.data.corpus import Corpus
from tasc.files.packaged import is_here
from tasc.models.folder.fetch import local_folder
from tasc.options.references import resolve_model
from tasc.progress import Progress
from tasc.tokenizer.files import tokenizer_folder
from tasc.tokenizer.loaded import load_tokenizer
from tasc.vocab.search.embedding_cost import embedding_cost
from tasc.vocab.trim import ROWS, can_trim, trim

_SHARE = 0.3  # of a model's weights: with smaller vocabularies, trimming gains little


@dataclass(frozen=True)
class Proposal:
    """Why to trim a model."""

    share: float  # of its weights that are embeddings, and an LM head of its own
    rows: int  # tokens of its vocabulary


@dataclass(frozen=True)
class TrimmedModel:
    """A trimmed copy of a model."""

    reason: Proposal
    folder: Path


def proposed(
    model: str | None, texts: Corpus | None, folder: Path, progress: Progress
) -> TrimmedModel | None:
    """Trim a model to its ``texts`` in ``folder`` if its vocabulary is large; else return None."""
    reason = None if texts is None else proposal(model)
    if model is None or texts is None or reason is None:
        return None
    progress("trim the model", 0, 0)
    written = with_chat_template(texts, load_tokenizer(model))
    return TrimmedModel(reason, make_trimmed(model, written, None, folder))


def proposal(model: str | None) -> Proposal | None:
    """Return the reason to trim a model; None if its vocabulary is small, or it is not here."""
    if model is None or not is_here(model):
        return None
    cost = embedding_cost(tokenizer_folder(local_folder(resolve_model(model)[1])))
    tokenizer = load_tokenizer(model)
    rows = len(tokenizer.vocabulary())
    if cost is None or rows < 2 * ROWS or not can_trim(tokenizer):
        return None
    share = rows * cost.parameters / cost.total
    return Proposal(share, rows) if share > _SHARE else None


def make_trimmed(model: str, texts: Corpus, rows: int | None, folder: Path) -> Path:
    """Write a model as ``tasc augment --trim`` does, with the tokens that ``texts`` use."""
    from tasc.models.embeddings import keep_rows
    from tasc.models.load import load_model
    from tasc.training.folder import save_model

    used: Sequence[str] = [*texts.prompts, *texts.outputs]
    path = resolve_model(model)[1]
    loaded = load_model(path)
    size = loaded.get_input_embeddings().weight.shape[0]
    trimmed = trim(load_tokenizer(model), used, rows, size)
    keep_rows(loaded, trimmed.kept)
    save_model(loaded, trimmed.tokenizer, folder)
    return folder
