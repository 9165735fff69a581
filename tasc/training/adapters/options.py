"""The options that say what of a model trains, and in which arithmetic."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tasc.options.bounds import MOST
from tasc.options.command import Options
from tasc.options.fields import Shell

TrainedRows = Literal["new", "used", "all"]
Quantization = Literal["nf4", "8bit", "none"]
ALL_LINEAR = "all-linear"
_OF_ADAPTERS = ("rank", "alpha", "dropout", "target_modules")


class AdapterOptions(Options):
    """What trains: adapters on a model, quantised or not, and rows of its embeddings; or all of it.

    The defaults are those of App. B.2.
    """

    adapter: Literal["lora", "none"] = Field(
        "lora", description="What trains: low-rank adapters; or none, and all weights themselves."
    )
    rank: int = Field(16, ge=1, le=2**14, description="Of the adapters.")
    alpha: int = Field(16, ge=1, le=MOST, description="Adapters are scaled by alpha / rank.")
    dropout: float = Field(0.2, ge=0, lt=1, description="Share dropped before the adapters.")
    target_modules: str = Field(
        ALL_LINEAR,
        max_length=10_000,
        pattern=r"^[A-Za-z0-9_.-]+(,[A-Za-z0-9_.-]+)*$",
        description="Layers that get adapters, by the ends of their names with commas between, as "
        "q_proj,v_proj; all-linear: all but the LM head.",
    )
    quantize: Annotated[Quantization | None, Shell(default="nf4; of all weights none")] = Field(
        None,
        description="How linear layers below adapters are held: nf4, in 4 bits; 8bit; or as they "
        "are.",
    )
    train_rows: Annotated[TrainedRows | None, Shell(default="used; of all weights all")] = Field(
        None,
        description="Rows of the embedding and the LM head that train: of new tokens, of all that "
        "the training data use, or all.",
    )
    gradient_checkpointing: bool = Field(
        False, description="Recompute activations instead of keeping them; less memory."
    )
    bf16: bool = Field(
        False,
        description="Multiply in bfloat16 (autocast), as is done anyway where the device has "
        "instructions for it and dtype is not float32.",
    )
    tf32: bool = Field(False, description="On CUDA: multiply float32 matrices as TF32.")

    @property
    def quantization(self) -> Quantization:
        """How the layers below adapters are held."""
        return self.quantize or ("nf4" if self.adapter == "lora" else "none")

    @property
    def trained_rows(self) -> TrainedRows:
        """Which rows of embedding and LM head train."""
        return self.train_rows or ("used" if self.adapter == "lora" else "all")

    @field_validator("quantize", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        if isinstance(value, bool):
            now = "nf4" if value else "none"
            raise ValueError(f"quantize is no switch any more: type {now} for {str(value).lower()}")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Refuse what says something of adapters where there are none."""
        if self.adapter == "lora":
            return self
        given = sorted(self.model_fields_set.intersection(_OF_ADAPTERS))
        if given:
            raise ValueError(f"{given[0]} is of adapters: leave it out with adapter=none")
        if self.quantization != "none":
            raise ValueError("quantize: quantised weights do not train: leave out one of the two")
        if self.trained_rows != "all":
            raise ValueError("train_rows: all rows train with adapter=none: leave it out")
        return self
