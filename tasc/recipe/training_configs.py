"""The options of the commands that train."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from tasc.recipe.step_config import LONGEST, Kind, ModelConfig
from tasc.spec.bounds import MOST

MOST_SEQUENCES = 2**16  # of a batch
MOST_EPOCHS, MOST_RATE = 10**6, 100


class BaseConfig(ModelConfig):
    """Options of ``tasc base``."""

    command = "base"
    result_file = "training.json"
    products: ClassVar = frozenset({"model", "tokenizer"})
    references: ClassVar = {"tokenizer": "tokenizer"}

    tokenizer: str | None = None
    preset: Literal["pico", "tiny", "small", "medium", "large"] = "small"
    vocabulary: int | None = Field(None, ge=300, le=2**20)
    tokenizer_text: Literal["prompts", "all"] = "prompts"
    epochs: float = Field(3.0, gt=0, le=MOST_EPOCHS)
    minutes: float | None = Field(None, gt=0, le=10**6)
    learning_rate: float | None = Field(None, gt=0, le=MOST_RATE)
    block: int = Field(256, ge=2, le=LONGEST)
    validation: str | None = "validation"


class FinetuneConfig(ModelConfig):
    """Options of ``tasc finetune``."""

    command = "finetune"
    result_file = "training.json"
    references: ClassVar = {"model": "model", "augmented": "new tokens"}

    model: str
    augmented: str | None = None
    merge: bool = False
    draft_head: bool = False
    head: Literal["eagle", "medusa"] = "eagle"
    heads: int | None = Field(None, ge=1, le=64)
    epochs: float = Field(3.0, gt=0, le=MOST_EPOCHS)
    learning_rate: float | None = Field(None, gt=0, le=MOST_RATE)
    row_learning_rate: float | None = Field(None, gt=0, le=MOST_RATE)
    warmup_steps: int = Field(0, ge=0, le=MOST)
    batch_size: int = Field(8, ge=1, le=MOST_SEQUENCES)
    effective_batch: int | None = Field(None, ge=1, le=MOST_SEQUENCES)
    max_new_tokens: int = Field(256, ge=1, le=LONGEST)
    repetition_penalty: float = Field(1.0, ge=1, le=1000)
    max_length: int = Field(512, ge=8, le=LONGEST)
    quantize: bool = True
    device: Literal["auto", "cpu", "cuda"] = "auto"
    validation: str | None = "validation"

    @property
    def makes(self) -> frozenset[Kind]:
        """See Config.makes: a model only where the adapter is merged into it."""
        if self.draft_head:
            return frozenset({"draft head"})
        return frozenset({"model", "tokenizer"} if self.merge else {"tokenizer"})

    @model_validator(mode="after")
    def _one_kind(self) -> "FinetuneConfig":
        if self.draft_head and (self.augmented or self.merge):
            raise ValueError("draft_head trains a head and no adapter: leave out augmented, merge")
        if self.head == "medusa" and not self.draft_head:
            raise ValueError("head=medusa is a kind of draft head: add draft_head")
        if self.heads is not None and self.head != "medusa":
            raise ValueError("heads: only Medusa has several, add head=medusa")
        return self
