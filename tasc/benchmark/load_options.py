"""The options of ``tasc load``."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from tasc.benchmark.endpoint import Address, AllowRemote, check_reach
from tasc.options.command import StepOptions, StepSpec
from tasc.options.fields import Positive, Shell, Split, Text, Tokens, as_value_error


class LoadOptions(StepOptions):
    """Options of ``tasc load``."""

    command = "load"
    spec = StepSpec(
        "results.json",
        references={"reference": "results"},
        makes=frozenset({"results"}),
        by_hand=frozenset({"allow_remote"}),
    )

    split: Split = "test"
    endpoints: Annotated[tuple[str, ...], Shell("endpoint")] = Field(
        min_length=1,
        description="OpenAI-compatible server, as URL or NAME=URL (http://127.0.0.1:8000/v1); "
        "repeatable. Servers take turns.",
    )
    models: Annotated[tuple[str, ...], Shell("model", default="the first in the server's list")] = (
        Field((), description="Model to request: one for all endpoints, or one for each, in order.")
    )
    concurrency: int = Field(1, ge=1, le=999, description="Number of requests in flight.")
    max_new_tokens: Tokens = Field(256, description="Sent to servers as max_tokens.")
    stop: tuple[Text, ...] = Field(
        (), description="Text that ends an output and is not part of it; repeatable."
    )
    repeats: int = Field(
        1, ge=1, le=1000, description="Number of times that each prompt is sent to each endpoint."
    )
    warmup: Positive = Field(
        3, description="Unmeasured requests to each server before the first pass."
    )
    timeout: float = Field(
        600.0, ge=0.1, le=86400, description="Seconds after which a request has failed."
    )
    reference: Annotated[str | None, Shell(default="the first endpoint")] = Field(
        None, description="Folder of tasc bench or tasc load whose first outputs are the reference."
    )
    allow_remote: AllowRemote = False

    @property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(map(Address.parse, self.endpoints))

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        with as_value_error():
            addresses = self.addresses
            check_reach(addresses, self.allow_remote)
        labels = [address.label for address in addresses]
        if len({*labels}) < len(labels):
            raise ValueError("two endpoints have the same name: name them with NAME=URL")
        if len(self.models) not in (0, 1, len(labels)):
            raise ValueError(
                f"{len(self.models)} models for {len(labels)} endpoints: give one, or one for each"
            )
        return self
