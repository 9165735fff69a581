"""The result of fine-tuning: an adapter, a plain model, or both."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from peft import PeftModel
from transformers import PreTrainedModel

from tasc.models.embeddings import NewEmbedding, extend_embeddings, keep_rows
from tasc.models.load import load_model
from tasc.report.record import Reported
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.training.adapters import lora
from tasc.training.core.schedule import TrainReport
from tasc.training.folder import save_model, save_tokenizer
from tasc.vocab.augment import Augmentation
from tasc.vocab.report import AugmentReport


@dataclass(frozen=True)
class Start:
    """The model, tokenizer and new tokens that a training starts from."""

    model: str  # folder or Hub id of the base model
    tokenizer: str  # its tokenizer, or the augmented one
    added: Sequence[NewEmbedding] = ()  # tokens that the model does not have yet
    kept: Sequence[int] | None = None  # tokens of the model that the tokenizer keeps; None: all


@dataclass(frozen=True, eq=False)
class FinetuneResult(Reported):
    """A trained model, still in memory."""

    model: PeftModel | PreTrainedModel  # with its adapter, or trained as a whole; evaluates
    report: TrainReport
    tokenizer: LoadedTokenizer
    start: Start
    merge: bool
    card: str = ""  # README.md of the plain model; not written if it is empty

    def save(self, folder: Path) -> None:
        """Write the adapter to ``adapter``, and a plain model to ``model``.

        The plain model is written with ``merge``, if all weights were trained, or if tokens were
        dropped, as an adapter alone does not fit the base model then.
        """
        adapted = isinstance(self.model, PeftModel)
        if adapted:
            self.save_adapter(folder / "adapter")
        if self.merge or not adapted or self.start.kept is not None:
            self.save_merged(folder / "model")

    def save_adapter(self, folder: Path) -> None:
        """Write the adapter in PEFT's format (safetensors), and the tokenizer.

        To load it with PEFT alone, first resize the base model's embeddings to the tokenizer's
        length; the adapter contains the trained rows. With a trimmed tokenizer, it fits only
        after ``keep_rows`` on the base model.
        """
        folder.mkdir(parents=True, exist_ok=True)
        # Not "auto", which queries the Hub and saves whole matrices.
        self.model.save_pretrained(folder, save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # PEFT's empty model card
        save_tokenizer(self.tokenizer, folder)

    def save_merged(self, folder: Path) -> None:
        """Write a plain model in the base model's dtype, with the adapter, and the tokenizer."""
        save_model(self.merged(), self.tokenizer, folder)
        if self.card:
            (folder / "README.md").write_text(self.card, encoding="utf-8")

    def merged(self) -> PreTrainedModel:
        plain = load_model(self.start.model)
        if self.start.kept is not None:
            keep_rows(plain, self.start.kept)
        extend_embeddings(plain, self.start.added, len(self.tokenizer.vocabulary()))
        if isinstance(self.model, PeftModel):
            lora.merge_into(self.model, plain)
        else:
            plain.load_state_dict(self.model.state_dict())
        return plain


@dataclass(frozen=True)
class TrimmedModel(Reported):
    """A trimmed tokenizer and its model, which is as it was but for the rows that went."""

    augmentation: Augmentation
    base: str  # folder of the model

    @property
    def report(self) -> AugmentReport:
        return self.augmentation.report

    def save(self, folder: Path) -> None:
        augmentation = self.augmentation
        model = load_model(self.base)
        augmentation.save(folder)
        keep_rows(model, augmentation.kept or ())
        tokenizer = LoadedTokenizer(augmentation.tokenizer, str(folder), augmentation.files)
        save_model(model, tokenizer, folder / "model")
