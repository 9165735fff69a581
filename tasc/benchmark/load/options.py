"""The options of ``tasc load``."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from tasc.benchmark.load.address import Address, check_reach
from tasc.benchmark.options import QualityOptions
from tasc.options.bounds import MOST
from tasc.options.fields import (
    LONGEST,
    Numbers,
    Shell,
    Split,
    Text,
    as_value_error,
    parse_numbers,
)

Timeout = Annotated[
    float, Field(ge=0.1, le=86400, description="Seconds after which a request has failed.")
]
AllowRemote = Annotated[
    bool, Field(description="Send prompts to other machines, too; without it, to this one alone.")
]


class LoadOptions(QualityOptions):
    """Options of ``tasc load``."""

    command = "load"
    result_file = "results.json"
    references: ClassVar = {"reference": "results"}
    products: ClassVar = frozenset({"results"})
    by_hand: ClassVar = frozenset({"allow_remote"})

    split: Split = "test"
    endpoints: Annotated[tuple[str, ...], Shell("endpoint")] = Field(
        min_length=1,
        description="OpenAI-compatible server, as URL or NAME=URL (http://127.0.0.1:8000/v1); "
        "repeatable: servers take turns.",
    )
    models: Annotated[tuple[str, ...], Shell("model", default="the first that a server lists")] = (
        Field((), description="Model to ask for; once, or once for each endpoint in its order.")
    )
    concurrency: Numbers = Field(
        "1,8,32", description="Requests under way at a time, with commas between."
    )
    max_new_tokens: int = Field(
        256, ge=1, le=LONGEST, description="Longest output, in tokens: max_tokens of a request."
    )
    stop: tuple[Text, ...] = Field(
        (), description="Text that ends an output and is no part of it; repeatable."
    )
    repeats: int = Field(1, ge=1, le=1000, description="Passes over all samples, at each level.")
    warmup: int = Field(
        3, ge=1, le=MOST, description="Requests that each server answers before, unmeasured."
    )
    timeout: Timeout = 600.0
    reference: Annotated[str | None, Shell(default="the first endpoint")] = Field(
        None,
        description="Folder of tasc bench or tasc load: outputs are compared with its first ones.",
    )
    allow_remote: AllowRemote = False

    @property
    def levels(self) -> tuple[int, ...]:
        """The numbers of requests under way at a time."""
        return parse_numbers(self.concurrency)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where the servers are."""
        return tuple(map(Address.parse, self.endpoints))

    @field_validator("concurrency")
    @classmethod
    def _at_least_one(cls, value: str) -> str:
        if 0 in parse_numbers(value):
            raise ValueError("concurrency: numbers from 1 to 999")
        return value

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        with as_value_error():
            addresses = self.addresses
            check_reach(addresses, self.allow_remote)
        labels = [address.label for address in addresses]
        if len({*labels}) < len(labels):
            raise ValueError("two endpoints have the same name: tell them apart by NAME=URL")
        if len(self.models) not in (0, 1, len(labels)):
            raise ValueError(
                f"{len(self.models)} models for {len(labels)} endpoints: give one, or one for each"
            )
        return self
