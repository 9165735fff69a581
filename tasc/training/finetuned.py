"""What a fine-tuning leaves: an adapter on its base model, and the plain model of both."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peft import PeftModel
from transformers import PreTrainedModel

from tasc.models.embeddings import NewEmbedding, extend_embeddings
from tasc.models.load import Dtype, load_model
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.training import qlora
from tasc.training.core.schedule import TrainReport
from tasc.training.folder import save_model, save_tokenizer


@dataclass(frozen=True, eq=False)
class FinetuneResult:
    """A trained adapter on its base model, still in memory.

    Attributes:
        model: the adapted model, in evaluation mode.
        report: how the training went.
        card: README.md of the plain model; none is written where it is empty.
    """

    model: PeftModel
    report: TrainReport
    tokenizer: LoadedTokenizer
    added: tuple[NewEmbedding, ...]
    base: str
    merge: bool
    card: str = ""

    def save(self, folder: Path) -> None:
        """Write the adapter into ``adapter``, and into ``model`` a plain model if that is asked."""
        self.save_adapter(folder / "adapter")
        if self.merge:
            self.save_merged(folder / "model")

    def to_dict(self) -> dict[str, Any]:
        """Return how the training went, as JSON values."""
        return self.report.to_dict()

    def save_adapter(self, folder: Path) -> None:
        """Write the adapter as PEFT does (safetensors), and the tokenizer beside it.

        To load it with PEFT alone, resize the base model's embeddings to the tokenizer's length
        first; the adapter holds the new rows themselves.
        """
        folder.mkdir(parents=True, exist_ok=True)
        # Not "auto", which asks the Hub whether the vocabulary grew and saves whole matrices.
        self.model.save_pretrained(folder, save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # PEFT's model card, an empty form
        save_tokenizer(self.tokenizer, folder)

    def save_merged(self, folder: Path, dtype: Dtype = "auto") -> None:
        """Write a plain model with the adapter in its weights, and the tokenizer beside it.

        ``AutoModelForCausalLM`` and ``AutoTokenizer`` load it as any other; "auto" is the dtype of
        the base model.
        """
        save_model(self.merged(dtype), self.tokenizer, folder)
        if self.card:
            (folder / "README.md").write_text(self.card, encoding="utf-8")

    def merged(self, dtype: Dtype = "auto") -> PreTrainedModel:
        """Return the plain model of ``save_merged``."""
        plain = load_model(self.base, dtype=dtype)
        extend_embeddings(plain, self.added, vocabulary_size(self.tokenizer))
        qlora.merge_into(self.model, plain)
        return plain


def vocabulary_size(tokenizer: LoadedTokenizer) -> int:
    """Return how many tokens a tokenizer has, added ones too."""
    return len(tokenizer.vocabulary())
