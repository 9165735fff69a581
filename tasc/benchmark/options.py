"""The options of ``tasc bench``, ``tasc tune`` and ``tasc vocab``."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from tasc.benchmark.endpoint import Address, AllowRemote, check_reach
from tasc.benchmark.metrics import JUDGE, check_metrics, described
from tasc.benchmark.paired.statistics import turn_length
from tasc.decoding.drafters import check, default_method, describe, parse
from tasc.errors import InputError
from tasc.options.bounds import COLDEST, HOTTEST, MOST, MOST_NODES
from tasc.options.command import MOST_EXAMPLES, ModelOptions, StepOptions
from tasc.options.executor import ExecutorOptions
from tasc.options.fields import (
    LONGEST,
    CorpusSplit,
    Device,
    Dtype,
    Shell,
    Split,
    Temperature,
    Text,
    as_value_error,
)
from tasc.options.task import Data

if TYPE_CHECKING:
    from tasc.decoding.core.sampling import Sampling


class QualityOptions(StepOptions):
    """What every command takes that compares outputs with their references."""

    metrics: Annotated[tuple[str, ...], Shell("metric")] = Field(
        ("exact_match", "token_accuracy"), description=f"{described()}; repeatable."
    )
    delimiter: Text = Field(";", description="What separates items for metrics of items.")

    @field_validator("metrics")
    @classmethod
    def _metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        with as_value_error():
            check_metrics(value)
        return value


class BenchOptions(ModelOptions, QualityOptions, ExecutorOptions):
    """Options of ``tasc bench``."""

    command = "bench"
    flags: ClassVar = ("output", "force", "json", "resume")
    result_file = "results.json"
    by_hand: ClassVar = ExecutorOptions.by_hand | {"allow_remote"}
    other_splits: ClassVar = {"corpus_split": None}
    same_splits: ClassVar = frozenset({"corpus_split"})
    products: ClassVar = frozenset({"results"})
    references: ClassVar = {
        "models": "model",
        "indexes": "index",
        "draft_model": "model",
        "draft_head": "draft head",
        "token_counts": "token counts",
    }
    chat_template_of = "models"

    split: Split = "test"
    models: Annotated[tuple[str, ...], Shell("model")] = Field(
        min_length=1,
        description="Model folder or Hub id, as PATH or LABEL=PATH; repeatable. LABEL#1=PATH, "
        "LABEL#2=PATH, … are seeds of one.",
    )
    methods: Annotated[
        tuple[str, ...], Shell("method", default="ar and tasc-spec; with --draft-head ar and mix")
    ] = Field(
        ("ar", "tasc-spec"),
        description=describe(),
    )
    corpus_split: CorpusSplit = "train"
    indexes: Annotated[tuple[str, ...], Shell("index")] = Field(
        (), description="Folder of tasc index, as DIR or NAME=DIR, instead; repeatable."
    )
    draft_head: str | None = Field(
        None,
        description="Folder of tasc finetune --draft-head, for mix, eagle, fr-spec or microspec.",
    )
    token_counts: Annotated[str | None, Shell(default="by training outputs")] = Field(
        None,
        description="Folder of tasc analyze: ranks tokens for fr-spec and options size, frequent.",
    )
    draft_model: Annotated[str | None, Shell("draft", default="byte n-grams")] = Field(
        None,
        description="Small model, with any tokenizer, that slem, slrs, tli, union, standard and "
        "mix draft with.",
    )
    max_new_tokens: int = Field(256, ge=1, le=LONGEST, description="Longest output, in tokens.")
    dtype: Dtype = "float32"
    device: Device = "auto"
    repeats: int = Field(1, ge=1, le=1000, description="Passes over all samples.")
    slice: Annotated[int | None, Shell(default="all")] = Field(
        None,
        ge=1,
        le=MOST_EXAMPLES,
        description="Samples that one worker decodes, with all models and methods; methods that "
        "learn from outputs begin anew in each slice.",
    )
    warmup: int = Field(3, ge=0, le=MOST, description="Samples that warm up, unmeasured.")
    batch_size: int = Field(1, ge=1, le=1024, description="Samples decoded at a time.")
    temperature: Temperature = Field(None, description="Sample, with --seed.")
    top_k: int = Field(0, ge=0, le=MOST, description="Sample among so many tokens; 0: all.")
    top_p: float = Field(
        1.0, gt=0, le=1, description="Sample among the likeliest tokens of so much probability."
    )
    verify: Literal["sampled", "rejection", "multi-branch"] = Field(
        "sampled",
        description="With --temperature: sampled, for any method, where outputs depend on the seed "
        "alone; rejection (chains) or multi-branch (trees) for drafts drawn at random, as by slem, "
        "tli, slrs, union, standard.",
    )
    judge_endpoint: str | None = Field(
        None,
        description="OpenAI-compatible server for --metric judge, as URL "
        "(http://127.0.0.1:8000/v1). It receives prompts, references and outputs.",
    )
    judge_model: Annotated[str, Shell(default="the first that the server lists")] = Field(
        "", description="Model that judges."
    )
    allow_remote: AllowRemote = False
    graphs: Literal["auto", "off"] = Field("auto", description="CUDA graphs; auto: on CUDA.")
    compile: bool = Field(False, description="torch.compile the forward: minutes, once a shape.")

    @property
    def sampling(self) -> "Sampling | None":
        """How to sample; None for greedy decoding."""
        from tasc.decoding.core.sampling import Sampling

        if self.temperature is None:
            return None
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)

    def greedy(self) -> Self:
        """Return the same without sampling."""
        return self.but(temperature=None, top_k=0, top_p=1.0, verify="sampled")

    @model_validator(mode="before")
    @classmethod
    def _with_head(cls, given: Any) -> Any:  # noqa: ANN401 - whatever was given
        if isinstance(given, dict) and given.get("draft_head") and "methods" not in given:
            return {**given, "methods": ("ar", default_method(head=True))}
        return given

    @field_validator("methods")
    @classmethod
    def _methods(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        problems = []
        for text in value:
            try:
                parse(text)
            except InputError as error:
                problems.append(str(error))
        if problems:
            raise ValueError("; ".join(problems))
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        with as_value_error():
            methods = [parse(text) for text in self.methods]
            check(methods, head=bool(self.draft_head), draft=self.draft_model is not None)
        return self

    @model_validator(mode="after")
    def _judged(self) -> Self:
        if (JUDGE in self.metrics) != (self.judge_endpoint is not None):
            raise ValueError(f"metric {JUDGE} and judge_endpoint go together: give both or neither")
        if self.judge_endpoint is not None:
            with as_value_error():
                check_reach([Address.parse(self.judge_endpoint)], self.allow_remote)
        return self

    @model_validator(mode="after")
    def _sliced(self) -> Self:
        methods = [parse(text) for text in self.methods]
        if self.executor != "local" and self.slice is None:
            raise ValueError("executor: give a slice, too, or all samples are one piece of work")
        if self.executor != "local" and not any(method.name == "ar" for method in methods):
            raise ValueError(
                "executor: machines differ, so each measures plain decoding itself: add method ar"
            )
        if self.slice is None:
            return self
        if self.slice % turn_length(self.batch_size):
            raise ValueError(
                f"slice: {self.slice} is no multiple of the {turn_length(self.batch_size)} samples "
                f"that are decoded in turn with batch_size {self.batch_size}"
            )
        if any(method.adaptive for method in methods):
            raise ValueError("slice: budget=auto learns from all samples: leave one of them out")
        return self

    @model_validator(mode="after")
    def _sampled(self) -> Self:
        if self.temperature is None and (self.top_k or self.top_p < 1):
            raise ValueError(
                "top_k and top_p cut the distribution that is sampled: give a temperature, too"
            )
        if self.temperature is None and self.verify != "sampled":
            raise ValueError(f"verify={self.verify} is for sampling: give a temperature, too")
        return self


class TuneOptions(ExecutorOptions):
    """Options of ``tasc tune``."""

    command = "tune"
    result_file = "tuning.json"
    references: ClassVar = {"tokenizer": "tokenizer"}
    chat_template_of = "tokenizer"
    other_splits: ClassVar = {"corpus_split": None}
    needed_splits: ClassVar = frozenset({"split", "corpus_split"})

    split: Split = "validation"
    tokenizer: str = Field(description="Folder or Hub id of the model, or its tokenizer, to read.")
    corpus_split: CorpusSplit = "train"
    tree_size: Annotated[int, Shell(aliases=("budget",))] = Field(
        12, ge=1, le=MOST_NODES, description="Maximum number of draft nodes per step."
    )


class VocabularyOptions(ModelOptions):
    """Options of ``tasc vocab``."""

    command = "vocab"
    result_file = "vocabularies.json"
    references: ClassVar = {"target": "tokenizer", "draft": "tokenizer"}
    chat_template_of = "target"

    source: Annotated[Data, Shell("data")] = Data(path="builtin:stdlib-docs")
    target: Annotated[str, Shell(argument=True)] = Field(
        description="Target: model or tokenizer folder, or Hub id."
    )
    draft: Annotated[str, Shell(argument=True)] = Field(
        description="Drafter: the same; any vocabulary."
    )
    prompts: int = Field(20, ge=1, le=MOST, description="Examples that acceptance is measured on.")
    positions: int = Field(
        8, ge=1, le=LONGEST, description="Positions in the output of each to measure at."
    )
    temperature: float = Field(
        1.0, ge=COLDEST, le=HOTTEST, description="Of both models' distributions."
    )
    limit: int | None = Field(
        1000, ge=1, le=MOST_EXAMPLES, description="Examples to tokenize, drawn by the seed."
    )
