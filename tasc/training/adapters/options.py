"""Options for what to train, and with which arithmetic."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tasc.options.fields import Positive, Shell
from tasc.options.task import Options

TrainedRows = Literal["new", "used", "all"]
Quantization = Literal["nf4", "8bit", "none"]
ALL_LINEAR = "all-linear"
_OF_ADAPTERS = ("rank", "alpha", "dropout", "target_modules")


class AdapterOptions(Options):
    """What to train: adapters and embedding rows, or all weights. Defaults are App. B.2's."""

    adapter: Literal["lora", "none"] = Field(
        "lora", description="lora trains adapters, none trains all weights."
    )
    rank: int = Field(16, ge=1, le=2**14, description="LoRA rank.")
    alpha: Positive = Field(16, description="LoRA alpha; adapters are scaled by alpha / rank.")
    dropout: float = Field(0.2, ge=0, lt=1, description="Dropout rate before the adapters.")
    target_modules: str = Field(
        ALL_LINEAR,
        max_length=10_000,
        pattern=r"^[A-Za-z0-9_.-]+(,[A-Za-z0-9_.-]+)*$",
        description="Layers to adapt, by the ends of their names, separated by commas "
        "(q_proj,v_proj); all-linear: all but the LM head.",
    )
    quantize: Annotated[Quantization | None, Shell(default="nf4; none without adapters")] = Field(
        None, description="Quantisation of the layers below adapters: nf4 (4 bits), 8bit or none."
    )
    train_rows: Annotated[TrainedRows | None, Shell(default="used; all without adapters")] = Field(
        None,
        description="Rows of embedding and LM head to train: new (new tokens), used (tokens in the "
        "training data) or all.",
    )
    gradient_checkpointing: bool = Field(
        False, description="Recompute activations instead of storing them, to save memory."
    )
    bf16: bool = Field(
        False,
        description="Multiply in bfloat16 (autocast); the default on devices with bfloat16 "
        "instructions, unless --dtype is float32.",
    )
    tf32: bool = Field(False, description="Multiply float32 matrices as TF32, on CUDA.")

    @property
    def quantization(self) -> Quantization:
        return self.quantize or ("nf4" if self.adapter == "lora" else "none")

    @property
    def trained_rows(self) -> TrainedRows:
        return self.train_rows or ("used" if self.adapter == "lora" else "all")

    @model_validator(mode="after")
    def _no_options_of_adapters(self) -> Self:
        if self.adapter == "lora":
            return self
        names = sorted(self.model_fields_set.intersection(_OF_ADAPTERS))
        if names:
            raise ValueError(f"{names[0]} has no effect with adapter=none: leave it out")
        if self.quantization != "none":
            raise ValueError(
                "quantised weights cannot be trained: leave out quantize or adapter=none"
            )
        if self.trained_rows != "all":
            raise ValueError("adapter=none trains all rows: leave out train_rows")
        return self
