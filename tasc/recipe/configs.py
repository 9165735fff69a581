"""The options of every command, checked in one place for the command line and for recipes alike."""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from tasc.errors import InputError
from tasc.recipe.step_config import LONGEST, Kind, ModelConfig, StepConfig, as_value_error
from tasc.recipe.training_configs import BaseConfig, FinetuneConfig
from tasc.spec.bounds import COLDEST, HOTTEST, MOST, MOST_NODES


def _problem(check: Callable[[str], object], text: str) -> str | None:
    """Return what ``check`` refuses in ``text``."""
    try:
        check(text)
    except InputError as error:
        return str(error)
    return None


class AnalyzeConfig(ModelConfig):
    """Options of ``tasc analyze``; ``model`` is timed, and its tokenizer taken if none is named."""

    command = "analyze"
    result_file = "analysis.json"
    references: ClassVar = {"tokenizer": "tokenizer", "model": "model"}
    incidental: ClassVar[set[str]] = {"jobs"}

    tokenizer: str | None = None
    model: str | None = None
    grid: bool = False  # simulate settings of TASC-spec on held-out outputs; always with a model
    dtype: Literal["float32", "bfloat16", "auto"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    jobs: int = Field(1, ge=1, le=512)
    budgets: tuple[Annotated[int, Field(ge=0, le=MOST)], ...] = (0, 50, 100, 250, 500, 1000)
    n_max: int = Field(4, ge=2, le=8)
    pcs: float = Field(0.05, gt=0, le=MOST)
    export: Literal["pretoken", "added"] = "pretoken"
    held_out: str = "validation"

    @property
    def makes(self) -> frozenset[Kind]:
        """See Config.makes: tokens are counted where there is a tokenizer."""
        return frozenset({"token counts"} if self.tokenizer or self.model else ())

    @property
    def searches(self) -> bool:
        """Whether settings of TASC-spec are searched."""
        return self.grid or self.model is not None

    @model_validator(mode="after")
    def _tokens_to_draft(self) -> Self:
        if self.grid and not (self.tokenizer or self.model):
            raise ValueError("the grid drafts tokens: give a tokenizer or a model")
        return self


class AugmentConfig(StepConfig):
    """Options of ``tasc augment``."""

    command = "augment"
    result_file = "augmentation.json"
    products: ClassVar = frozenset({"tokenizer", "new tokens"})
    references: ClassVar = {"tokenizer": "tokenizer"}

    tokenizer: str
    budget: int | Literal["auto"] = 500
    risk_price: float = Field(10.0, ge=0, le=MOST)
    n_max: int = Field(4, ge=2, le=8)
    pcs: float = Field(0.05, gt=0, le=MOST)
    conditional: bool = False
    export: Literal["pretoken", "added"] = "pretoken"
    min_gain: float = Field(0.0, ge=0, lt=1)
    protect: tuple[str, ...] = ()
    held_out: str = "validation"

    @field_validator("budget", mode="before")
    @classmethod
    def _number_or_auto(cls, value: object) -> object:
        text = str(value)
        if text == "auto" or (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST):
            return value
        raise ValueError(f"budget: a number from 1 to {MOST:,} or auto, got {value!r:.60}")


class IndexConfig(StepConfig):
    """Options of ``tasc index``; ``n_max`` to ``mark`` as in tasc.spec.index.IndexOptions."""

    command = "index"
    result_file = "index.json"
    products: ClassVar = frozenset({"index"})
    references: ClassVar = {"tokenizer": "tokenizer"}

    tokenizer: str
    n_max: int = Field(6, ge=1, le=15)
    p_min: int = Field(1, ge=1, le=MOST)
    discount: float = Field(0.8, ge=0, lt=1)
    strength: float = Field(1.0, ge=0, le=MOST)
    mark: bool = True


class VocabConfig(ModelConfig):
    """Options of ``tasc vocab``."""

    command = "vocab"
    result_file = "vocabularies.json"
    references: ClassVar = {"target": "model", "draft": "model"}

    target: str
    draft: str
    prompts: int = Field(20, ge=1, le=MOST)
    places: int = Field(8, ge=1, le=LONGEST)
    temperature: float = Field(1.0, ge=COLDEST, le=HOTTEST)


class BenchConfig(ModelConfig):
    """Options of ``tasc bench``."""

    command = "bench"
    result_file = "results.json"
    references: ClassVar = {
        "models": "model",
        "indexes": "index",
        "draft_model": "model",
        "draft_heads": "draft head",
        "token_counts": "token counts",
    }

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
    max_new_tokens: int = Field(256, ge=1, le=LONGEST)
    dtype: Literal["float32", "bfloat16", "auto"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    repeats: int = Field(1, ge=1, le=1000)
    warmup: int = Field(3, ge=0, le=MOST)
    batch_size: int = Field(1, ge=1, le=1024)
    temperature: float | None = Field(None, ge=COLDEST, le=HOTTEST)  # None: greedy
    top_k: int = Field(0, ge=0, le=MOST)
    top_p: float = Field(1.0, gt=0, le=1)
    verify: Literal["sampled", "rejection", "multi-branch"] = "sampled"
    graphs: Literal["auto", "off"] = "auto"
    compile: bool = False

    @field_validator("methods")
    @classmethod
    def _methods(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from tasc.spec.drafters import parse

        problems = [problem for text in value if (problem := _problem(parse, text))]
        if problems:
            raise ValueError("; ".join(problems))
        return value

    @field_validator("metrics")
    @classmethod
    def _metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from tasc.bench.quality import check_metrics

        with as_value_error():
            check_metrics(value)
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        from tasc.spec.drafters import DRAFTERS, NO_HEAD, check, parse

        methods = [parse(text) for text in self.methods]
        with as_value_error():
            check(methods, self.batch_size)
        headless = [m.label for m in methods if DRAFTERS[m.name].head and not self.draft_heads]
        if headless:
            raise ValueError(f"method {headless[0]!r}: {NO_HEAD}")
        return self

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
    references: ClassVar = {"tokenizer": "model"}

    split: str = "validation"
    tokenizer: str
    corpus_split: str = "train"
    budget: int = Field(12, ge=1, le=MOST_NODES)


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
