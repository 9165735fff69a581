"""The options of every command, checked in one place for the command line and for recipes alike."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from tasc.recipe.step_config import ModelConfig, StepConfig

MOST_TOKENS = 10**9  # new ones; with a vocabulary they are numbered in 32 bits


class AnalyzeConfig(ModelConfig):
    """Options of ``tasc analyze``; ``model`` is timed, and its tokenizer taken if none is named."""

    command = "analyze"
    result_file = "analysis.json"
    references = ("tokenizer", "model")
    incidental: ClassVar[set[str]] = {"jobs"}

    tokenizer: str | None = None
    model: str | None = None
    grid: bool = False  # replay held-out outputs over settings of TASC-spec; always with a model
    dtype: Literal["float32", "bfloat16", "auto"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    jobs: int = Field(1, ge=1)
    budgets: tuple[Annotated[int, Field(ge=0, le=MOST_TOKENS)], ...] = (0, 50, 100, 250, 500, 1000)
    n_max: int = Field(4, ge=2, le=8)
    pcs: float = Field(0.05, gt=0)
    export: Literal["pretoken", "added"] = "pretoken"
    held_out: str = "validation"

    @property
    def replays(self) -> bool:
        """Whether drafts are replayed, for which the outputs are read into memory."""
        return self.grid or self.model is not None

    @model_validator(mode="after")
    def _tokens_to_replay(self) -> Self:
        if self.grid and not (self.tokenizer or self.model):
            raise ValueError("the grid replays tokens: give a tokenizer or a model")
        return self


class AugmentConfig(StepConfig):
    """Options of ``tasc augment``."""

    command = "augment"
    result_file = "augmentation.json"
    references = ("tokenizer",)

    tokenizer: str
    budget: int | Literal["auto"] = 500
    risk_price: float = Field(10.0, ge=0)
    n_max: int = Field(4, ge=2, le=8)
    pcs: float = Field(0.05, gt=0)
    conditional: bool = False
    export: Literal["pretoken", "added"] = "pretoken"
    min_gain: float = Field(0.0, ge=0, lt=1)
    protect: tuple[str, ...] = ()
    held_out: str = "validation"

    @field_validator("budget", mode="before")
    @classmethod
    def _number_or_auto(cls, value: object) -> object:
        text = str(value)
        if text == "auto" or (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_TOKENS):
            return value
        raise ValueError(f"budget: a number from 1 to {MOST_TOKENS:,} or auto, got {value!r:.60}")


class BaseConfig(ModelConfig):
    """Options of ``tasc base``."""

    command = "base"
    result_file = "training.json"
    references = ("tokenizer",)

    tokenizer: str | None = None
    preset: Literal["pico", "tiny", "small", "medium", "large"] = "small"
    vocabulary: int | None = Field(None, ge=300)
    tokenizer_text: Literal["prompts", "all"] = "prompts"
    epochs: float = Field(3.0, gt=0)
    minutes: float | None = Field(None, gt=0)
    learning_rate: float | None = Field(None, gt=0)
    block: int = Field(256, ge=2)
    validation: str | None = "validation"


class FinetuneConfig(ModelConfig):
    """Options of ``tasc finetune``."""

    command = "finetune"
    result_file = "training.json"
    references = ("model", "augmented")

    model: str
    augmented: str | None = None
    merge: bool = False
    draft_head: bool = False
    head: Literal["eagle", "medusa"] = "eagle"
    heads: int | None = Field(None, ge=1)
    epochs: float = Field(3.0, gt=0)
    learning_rate: float | None = Field(None, gt=0)
    row_learning_rate: float | None = Field(None, gt=0)
    warmup_steps: int = Field(0, ge=0)
    batch_size: int = Field(8, ge=1)
    effective_batch: int | None = Field(None, ge=1)
    max_new_tokens: int = Field(256, ge=1)
    repetition_penalty: float = Field(1.0, ge=1)
    max_length: int = Field(512, ge=8)
    quantize: bool = True
    device: Literal["auto", "cpu", "cuda"] = "auto"
    validation: str | None = "validation"

    @model_validator(mode="after")
    def _one_kind(self) -> "FinetuneConfig":
        if self.draft_head and (self.augmented or self.merge):
            raise ValueError("draft_head trains a head and no adapter: leave out augmented, merge")
        if self.head == "medusa" and not self.draft_head:
            raise ValueError("head=medusa is a kind of draft head: add draft_head")
        if self.heads is not None and self.head != "medusa":
            raise ValueError("heads: only Medusa has several, add head=medusa")
        return self


class IndexConfig(StepConfig):
    """Options of ``tasc index``; ``n_max`` to ``mark`` as in tasc.spec.index.IndexOptions."""

    command = "index"
    result_file = "index.json"
    references = ("tokenizer",)

    tokenizer: str
    n_max: int = Field(6, ge=1, le=15)
    p_min: int = Field(1, ge=1)
    discount: float = Field(0.8, ge=0, lt=1)
    strength: float = Field(1.0, ge=0)
    mark: bool = True


class VocabConfig(ModelConfig):
    """Options of ``tasc vocab``."""

    command = "vocab"
    result_file = "vocabularies.json"
    references = ("target", "draft")

    target: str
    draft: str
    prompts: int = Field(20, ge=1)
    places: int = Field(8, ge=1)
    temperature: float = Field(1.0, gt=0)


class BenchConfig(ModelConfig):
    """Options of ``tasc bench``."""

    command = "bench"
    result_file = "results.json"
    references = ("models", "indexes", "draft_model", "draft_heads", "token_counts")

    split: str = "test"
    models: tuple[str, ...] = Field(min_length=1)
    methods: tuple[str, ...] = ("ar", "tasc-spec")
    corpus_split: str = "train"
    indexes: tuple[str, ...] = ()
    draft_heads: tuple[str, ...] = ()
    token_counts: str | None = None
    draft_model: str | None = None
    metrics: tuple[str, ...] = ("exact_match", "token_accuracy")
    delimiter: str = Field(";", min_length=1)
    max_new_tokens: int = Field(256, ge=1)
    dtype: Literal["float32", "bfloat16", "auto"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    repeats: int = Field(1, ge=1)
    warmup: int = Field(3, ge=0)
    batch_size: int = Field(1, ge=1)
    temperature: float | None = Field(None, gt=0)  # None: greedy
    top_k: int = Field(0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    verify: Literal["sampled", "rejection", "multi-branch"] = "sampled"
    graphs: Literal["auto", "off"] = "auto"
    compile: bool = False

    @model_validator(mode="after")
    def _sampling(self) -> Self:
        if self.temperature is None and (self.top_k or self.top_p < 1):
            raise ValueError("top_k and top_p cut the law that is sampled: give a temperature, too")
        if self.temperature is None and self.verify != "sampled":
            raise ValueError(f"verify={self.verify} is for sampling: give a temperature, too")
        return self


class TuneConfig(StepConfig):
    """Options of ``tasc bench --tune``."""

    command = "tune"
    result_file = "tuning.json"
    references = ("tokenizer",)

    split: str = "validation"
    tokenizer: str
    corpus_split: str = "train"
    budget: int = Field(12, ge=1)


CONFIGS: dict[str, type[StepConfig]] = {
    "analyze": AnalyzeConfig,
    "augment": AugmentConfig,
    "base": BaseConfig,
    "finetune": FinetuneConfig,
    "index": IndexConfig,
    "vocab": VocabConfig,
    "bench": BenchConfig,
    "tune": TuneConfig,
}
