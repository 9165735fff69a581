"""The options of ``tasc analyze``, and of the merge search that ``tasc augment`` shares."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from tasc.options.bounds import MOST, MOST_NODES
from tasc.options.command import Kind, ModelOptions, OtherSplit, StepOptions, StepSpec
from tasc.options.constraint import REFERENCES, ConstrainedOptions
from tasc.options.executor import EXECUTOR_FIELDS, ExecutorOptions
from tasc.options.fields import MODEL, TOKENIZER, DecodingDtype, Device, Numbers, Shell

HELD_OUT = {"held_out": OtherSplit()}


class MergeSearchOptions(StepOptions):
    """Options of the merge search (Tsur et al., Algorithm 1)."""

    n_max: int = Field(4, ge=2, le=8, description="Longest n-gram merged at once.")
    pcs: float = Field(0.05, gt=0, le=MOST, description="Threshold of the prefix collision score.")
    export: Literal["pretoken", "added"] = Field(
        "pretoken",
        description="Representation of new tokens: pretoken respects pre-token boundaries, added "
        "is the paper's.",
    )
    held_out: str = Field("validation", description="Split to measure on, if the source has it.")


class AnalyzeOptions(MergeSearchOptions, ModelOptions, ExecutorOptions, ConstrainedOptions):
    """Options of ``tasc analyze``; ``model`` is timed, and its tokenizer taken if none is named."""

    command = "analyze"
    spec = StepSpec(
        "analysis.json",
        references={"tokenizer": "tokenizer", "model": "model", **REFERENCES},
        other_splits=HELD_OUT,
        incidental=EXECUTOR_FIELDS,
        streamed=True,
    )
    flags: ClassVar = ("output", "force", "json", "resume")

    tokenizer: Annotated[str | None, TOKENIZER] = None
    model: str | None = Field(
        None, description=f"{MODEL}, to predict the speed-up of TASC-spec on this machine."
    )
    grid: bool = Field(
        False, description="Simulate settings of TASC-spec on held-out outputs; implied by --model."
    )
    dtype: DecodingDtype = "float32"
    device: Device = "auto"
    new_tokens: Annotated[
        tuple[Annotated[int, Field(ge=0, le=MOST)], ...], Shell(aliases=("budget", "budgets"))
    ] = Field(
        (0, 50, 100, 250, 500, 1000),
        min_length=1,
        description="Number of new tokens to predict the effect of; repeatable.",
    )
    serve: Annotated[Literal["vllm"] | None, Shell(default="no engine")] = Field(
        None, description="Predict steps and accepted lengths of drafts served by an engine."
    )
    speculative_tokens: Numbers = Field(
        "4,8,16", description="With --serve: numbers of draft tokens per step, with commas between."
    )

    @property
    def makes(self) -> frozenset[Kind]:
        return frozenset({"token counts"} if self.tokenizer or self.model else ())

    @property
    def chains(self) -> tuple[int, ...]:
        """The numbers of draft tokens to predict for, in ascending order, each once."""
        return tuple(sorted({int(number) for number in self.speculative_tokens.split(",")}))

    @model_validator(mode="after")
    def _tokens_to_draft(self) -> Self:
        if (self.grid or self.serve) and not (self.tokenizer or self.model):
            what = "grid" if self.grid else "serve"
            raise ValueError(f"{what} needs a tokenizer: give a tokenizer or a model")
        if not all(1 <= number <= MOST_NODES for number in self.chains):
            raise ValueError(f"speculative_tokens: numbers from 1 to {MOST_NODES}")
        return self
