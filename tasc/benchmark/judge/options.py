"""The options of ``tasc judge``."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from tasc.benchmark.load.address import Address, check_reach
from tasc.benchmark.load.options import AllowRemote, Timeout
from tasc.errors import InputError, IntegrityError
from tasc.files.artefact import MANIFEST, read_manifest
from tasc.options.command import Data, StepOptions
from tasc.options.fields import LONGEST, Shell, Split, as_value_error
from tasc.options.references import expand_user, results_file


class JudgeOptions(StepOptions):
    """Options of ``tasc judge``."""

    command = "judge"
    result_file = "judge.json"
    flags: ClassVar = ("output", "force", "json", "resume")
    references: ClassVar = {"results": "results"}
    incidental: ClassVar = {"concurrency", "timeout"}
    by_hand: ClassVar = frozenset({"allow_remote"})

    results: Annotated[str, Shell(argument=True)] = Field(
        description="Folder of tasc bench, or its results.json, with the outputs of several models."
    )
    # Overridden on purpose: left out, it is what the bench read.
    source: Annotated[Data | None, Shell("data")] = None  # type: ignore[assignment]
    split: Split = "test"
    endpoint: str = Field(
        min_length=1,
        description="OpenAI-compatible server of the judge, as URL (http://127.0.0.1:8000/v1).",
    )
    model: Annotated[str, Shell(default="the first that the server lists")] = Field(
        "", description="Model that judges."
    )
    only: tuple[str, ...] = Field(
        (),
        description="Model of the bench to judge, by its name there; repeatable. Without it: all.",
    )
    instruction: str = Field(
        "Do what the prompt asks.",
        min_length=1,
        description="What the task asks of a model, as the judge is told; prompts may not say so.",
    )
    domain: str = Field(
        "", description="Field of the task, as in 'clinical': what models the judge is told of."
    )
    show_reference: bool = Field(
        False, description="Show the judge the expected output of each prompt, too."
    )
    concurrency: int = Field(8, ge=1, le=999, description="Questions under way at a time.")
    max_new_tokens: int = Field(
        256,
        ge=1,
        le=LONGEST,
        description="Longest reply of the judge, in tokens; one that reasons first needs more.",
    )
    timeout: Timeout = 600.0
    allow_remote: AllowRemote = False

    @property
    def address(self) -> Address:
        """Where the judge is."""
        return Address.parse(self.endpoint)

    @property
    def read_limit(self) -> int | None:
        """See StepOptions.read_limit: samples are those of the bench, and a part of them judged."""
        return None

    @model_validator(mode="before")
    @classmethod
    def _as_the_bench(cls, values: Any) -> Any:  # noqa: ANN401
        """Read the data that the bench did, unless other data is named."""
        named = isinstance(values, dict) and isinstance(values.get("results"), str)
        if not named or values.get("source") is not None:
            return values
        with as_value_error():
            return _read_by(expand_user(values["results"])) | values

    @field_validator("endpoint")
    @classmethod
    def _url(cls, value: str) -> str:
        with as_value_error():
            Address.parse(value)
        return value

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        with as_value_error():
            check_reach([self.address], self.allow_remote)
        if self.source is None:
            raise ValueError(
                f"{self.results} does not tell where its prompts are: give --data, with the "
                "--template and the --split of the bench"
            )
        return self


def _read_by(results: str) -> dict[str, Any]:
    """Return the options ``source`` and ``split`` of the bench that left ``results``.

    None of them where its folder does not tell.
    """
    try:
        folder = results_file(results).parent
        if not (folder / MANIFEST).is_file():
            return {}
        asked = read_manifest(folder).get("arguments")
    except (InputError, IntegrityError):
        return {}
    told = asked if isinstance(asked, dict) else {}
    return {name: told[name] for name in ("source", "split") if name in told}
