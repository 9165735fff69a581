"""The options of ``tasc bench``, ``tasc tune`` and ``tasc vocab``."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from tasc.benchmark.endpoint import Address, AllowRemote, check_reach
from tasc.benchmark.metrics import JUDGE, check_metrics, described
from tasc.benchmark.metrics.structured import KINDS
from tasc.benchmark.paired.statistics import turn_length
from tasc.decoding.drafters import check, default_method, describe, parse
from tasc.errors import InputError
from tasc.options.bounds import MOST_NODES
from tasc.options.command import ModelOptions, OtherSplit, StepSpec
from tasc.options.constraint import REFERENCES, ConstrainedOptions
from tasc.options.executor import EXECUTOR_FIELDS, ExecutorOptions
from tasc.options.fields import (
    MODEL,
    CorpusSplit,
    Count,
    DecodingDtype,
    Device,
    Positive,
    Shell,
    Split,
    Temperature,
    Text,
    Tokens,
    as_value_error,
)
from tasc.options.task import Data

if TYPE_CHECKING:
    from tasc.decoding.core.sampling import Sampling


class BenchOptions(ModelOptions, ExecutorOptions, ConstrainedOptions):
    """Options of ``tasc bench``."""

    command = "bench"
    flags: ClassVar = ("output", "force", "json", "resume")
    spec = StepSpec(
        "results.json",
        references={
            "models": "model",
            "indexes": "index",
            "draft_model": "model",
            "draft_head": "draft head",
            "token_counts": "token counts",
            **REFERENCES,
            "choices": "labels",
        },
        makes=frozenset({"results"}),
        chat_template_of="models",
        other_splits={"corpus_split": OtherSplit(may_be_main=True)},
        incidental=EXECUTOR_FIELDS,
        by_hand=frozenset({"allow_remote"}),
    )

    split: Split = "test"
    models: Annotated[tuple[str, ...], Shell("model")] = Field(
        min_length=1,
        description=f"{MODEL}, as PATH or LABEL=PATH; repeatable. Label the seeds of "
        "one model LABEL#1=PATH, LABEL#2=PATH, …",
    )
    methods: Annotated[
        tuple[str, ...],
        Shell(
            "method",
            default="ar and tasc-spec, with --draft-head ar and mix; with --choices also choices",
        ),
    ] = Field(("ar", "tasc-spec"), description=describe())
    corpus_split: CorpusSplit = "train"
    indexes: Annotated[tuple[str, ...], Shell("index")] = Field(
        (), description="Index (tasc index) instead of the corpus, as DIR or NAME=DIR; repeatable."
    )
    draft_head: str | None = Field(
        None, description="Folder of tasc finetune --draft-head, for mix and head methods."
    )
    token_counts: Annotated[str | None, Shell(default="by training outputs")] = Field(
        None, description="Token counts (tasc analyze), for fr-spec and options size and frequent."
    )
    draft_model: Annotated[str | None, Shell("draft", default="byte n-grams")] = Field(
        None, description="Draft model of slem, slrs, tli, union, standard, mix; any tokenizer."
    )
    choices: str | None = Field(
        None,
        description="Labels of the task: a file with one per line or a JSON list, or a column of "
        "the data. Each output is one of them.",
    )
    metrics: Annotated[tuple[str, ...], Shell("metric")] = Field(
        ("exact_match", "token_accuracy"), description=f"{described()}; repeatable."
    )
    delimiter: Text = Field(";", description="Separator of items, for the item metrics.")
    max_new_tokens: Tokens = Field(256, description="Maximum tokens per output.")
    dtype: DecodingDtype = "float32"
    device: Device = "auto"
    repeats: int = Field(1, ge=1, le=1000, description="Number of passes over all samples.")
    minutes: float | None = Field(
        None,
        gt=0,
        le=10**6,
        description="Stop decoding after this many minutes, with the samples that every model and "
        "method has decoded by then; samples are in random order.",
    )
    slice: Annotated[Positive | None, Shell(default="all")] = Field(
        None,
        description="Number of samples per slice. One worker decodes a slice with all models and "
        "methods; methods that learn from outputs restart with each slice.",
    )
    warmup: Count = Field(3, description="Number of unmeasured warm-up samples.")
    batch_size: int = Field(1, ge=1, le=1024, description="Number of samples decoded together.")
    temperature: Temperature = Field(None, description="Sampling temperature; --seed fixes draws.")
    top_k: Count = Field(0, description="Sample from the k most likely tokens (0 = all).")
    top_p: float = Field(
        1.0, gt=0, le=1, description="Sample from the fewest tokens with this probability mass."
    )
    verify: Literal["sampled", "rejection", "multi-branch"] = Field(
        "sampled",
        description="Verifier with --temperature. sampled works with any method; outputs depend "
        "only on the seed. rejection (chains) and multi-branch (trees) verify randomly drawn "
        "drafts, as of slem, tli, slrs, union and standard.",
    )
    judge_endpoint: str | None = Field(
        None,
        description="URL of an OpenAI-compatible server for --metric judge, such as "
        "http://127.0.0.1:8000/v1. It receives prompts, references and outputs.",
    )
    judge_model: Annotated[str, Shell(default="the first model that the server lists")] = Field(
        "", description="Judge model."
    )
    allow_remote: AllowRemote = False
    graphs: Literal["auto", "off"] = Field("auto", description="Use CUDA graphs (auto = on CUDA).")
    kernels: Literal["auto", "torch", "invariant"] = Field(
        "auto",
        description="Kernels of linear layers (auto = packed weights on a CPU with AVX2 or NEON; "
        "invariant = on CUDA, sums in one order, so that logits have the same bits with drafts).",
    )
    compile: bool = Field(
        False, description="Compile the forward with torch.compile; takes minutes per shape."
    )

    @property
    def sampling(self) -> "Sampling | None":
        """The sampling parameters; None for greedy decoding."""
        from tasc.decoding.core.sampling import Sampling

        if self.temperature is None:
            return None
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)

    def greedy(self) -> Self:
        return self.but(temperature=None, top_k=0, top_p=1.0, verify="sampled")

    @classmethod
    def _with_defaults(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Add methods for a draft head, and for labels unless outputs are sampled."""
        head = bool(values.get("draft_head"))
        chooses = values.get("choices") and values.get("temperature") is None
        if "methods" in values or not (head or chooses):
            return values
        return values | {"methods": ("ar", default_method(head=head), *["choices"] * bool(chooses))}

    @field_validator("metrics")
    @classmethod
    def _metrics(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        kinds = [kind for kind in KINDS if info.data.get(kind)]
        if kinds:  # the metric ``valid`` by the constraint of the task
            full = f"valid:{kinds[0]}={info.data[kinds[0]]}"
            value = tuple(full if name == "valid" else name for name in value)
        with as_value_error():
            check_metrics(value)
        return value

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
        methods = [parse(text) for text in self.methods]
        with as_value_error():
            check(
                methods,
                head=bool(self.draft_head),
                draft=self.draft_model is not None,
                choices=self.choices is not None,
            )
        if self.temperature is not None and (labels := [m.label for m in methods if m.chooses]):
            raise ValueError(f"methods: {labels[0]} does not sample: remove temperature")
        if self.choices is not None and self.constraint is not None:
            raise ValueError("choices and another constraint exclude each other: remove one")
        free = self.constraint is None and self.choices is None
        if free and (needing := [m.label for m in methods if m.name == "grammar"]):
            raise ValueError(
                f"methods: {needing[0]} needs schema, grammar, regex or choices: set one"
            )
        return self

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        if self.minutes is not None and (self.executor != "local" or self.slice is not None):
            other = "slice" if self.executor == "local" else "executor"
            raise ValueError(f"minutes and {other} exclude each other: remove one")
        if self.executor != "local" and self.slice is None:
            raise ValueError("executor: without slice, one worker decodes all samples: set slice")
        if self.executor != "local" and not any(parse(text).name == "ar" for text in self.methods):
            raise ValueError(
                "executor: speed-ups need plain decoding on the same machine: add method ar"
            )
        if self.dtype == "int8" and (self.kernels != "auto" or self.compile):
            wrong = "compile" if self.compile else "kernels"
            raise ValueError(f"dtype: int8 needs packed weights: remove {wrong}")
        turn = turn_length(self.batch_size)
        if self.slice is not None and self.slice % turn:
            raise ValueError(
                f"slice: {self.slice} is not a multiple of {turn}, the number of samples per turn "
                f"with batch_size {self.batch_size}: change slice"
            )
        return self

    @model_validator(mode="after")
    def _required(self) -> Self:
        if (JUDGE in self.metrics) != (self.judge_endpoint is not None):
            raise ValueError(
                f"metric {JUDGE} and judge_endpoint require each other: set both or neither"
            )
        if self.judge_endpoint is not None:
            with as_value_error():
                check_reach([Address.parse(self.judge_endpoint)], self.allow_remote)
        if self.temperature is None and (self.top_k or self.top_p < 1):
            raise ValueError("top_k and top_p require sampling: set temperature")
        if self.temperature is None and self.verify != "sampled":
            raise ValueError(f"verify={self.verify} requires sampling: set temperature")
        return self


class TuneOptions(ExecutorOptions):
    """Options of ``tasc tune``."""

    command = "tune"
    spec = StepSpec(
        "tuning.json",
        references={"tokenizer": "tokenizer"},
        chat_template_of="tokenizer",
        other_splits={"corpus_split": OtherSplit(required=True)},
        incidental=EXECUTOR_FIELDS,
    )

    split: Split = "validation"
    tokenizer: str = Field(description="Folder or Hub id of the tokenizer or its model.")
    corpus_split: CorpusSplit = "train"
    tree_size: Annotated[int, Shell(aliases=("budget",))] = Field(
        12, ge=1, le=MOST_NODES, description="Maximum number of draft nodes per step."
    )


class VocabularyOptions(ModelOptions):
    """Options of ``tasc vocab``."""

    command = "vocab"
    spec = StepSpec(
        "vocabularies.json",
        references={"target": "tokenizer", "draft": "tokenizer"},
        chat_template_of="target",
    )

    source: Annotated[Data, Shell("data")] = Data(path="builtin:stdlib-docs")
    target: Annotated[str, Shell(argument=True)] = Field(
        description="Target: model or tokenizer, as folder or Hub id."
    )
    draft: Annotated[str, Shell(argument=True)] = Field(
        description="Drafter with any vocabulary: model or tokenizer, as folder or Hub id."
    )
    prompts: Positive = Field(20, description="Number of examples to measure acceptance on.")
    limit: Positive | None = Field(
        1000, description="Number of examples to tokenize, drawn by --seed."
    )
