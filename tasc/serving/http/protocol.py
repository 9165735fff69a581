"""What clients send: the bodies of requests, and what is refused.

A field that is not supported is refused, unless its value asks for what happens anyway.
"""

import json
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasc.decoding.core.sampling import Sampling
from tasc.errors import InputError, TascError
from tasc.options.bounds import COLDEST, HOTTEST, MOST
from tasc.options.constraint import Constraint
from tasc.options.fields import explain
from tasc.visible import is_unicode

MOST_CHOICES = 32  # of one request
_SEEDS = 2**63
# Fields of the API that are not supported, with the values that change nothing.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "audio": (None,),
    "best_of": (None, 1),
    "echo": (None, False),
    "frequency_penalty": (None, 0),
    "function_call": (None, "none"),
    "functions": (None, []),
    "logit_bias": (None, {}),
    "logprobs": (None,),
    "metadata": (None, {}),
    "modalities": (None, ["text"]),
    "parallel_tool_calls": (None, True),
    "prediction": (None,),
    "presence_penalty": (None, 0),
    "reasoning_effort": (None,),
    "service_tier": (None, "auto", "default"),
    "skip_special_tokens": (None, False),
    "store": (None, False),
    "suffix": (None, ""),
    "tool_choice": (None, "none"),
    "tools": (None, []),
    "top_logprobs": (None,),
}


class RefusedError(Exception):
    """A request that is answered with an error, in the form of the OpenAI API."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.headers = status, param, code, headers

    @property
    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        if self.status == 429:
            kind = "rate_limit_error"
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": error}


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class StreamOptions(_Closed):
    """What a stream says besides the text."""

    include_usage: bool = False


class JsonSchema(_Closed):
    """A schema that every output satisfies."""

    name: str = ""
    description: str | None = None
    strict: bool | None = None
    schema_: dict[str, Any] = Field(alias="schema")


class ResponseFormat(_Closed):
    """The form of outputs."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("response_format: give json_schema with the type json_schema")
        return self

    @property
    def constraint(self) -> Constraint | None:
        """The constraint on outputs. Raises InputError for an invalid schema."""
        if self.json_schema is not None:
            return Constraint.of_schema(self.json_schema.schema_, "response_format")
        if self.type == "json_object":
            return Constraint.of_schema({"type": "object"}, "response_format")
        return None


class Body(_Closed):
    """The fields that both kinds of requests share."""

    model: str
    max_tokens: Annotated[int, Field(ge=1, le=MOST)] | None = None
    temperature: Annotated[float, Field(ge=0, le=HOTTEST)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, le=MOST)] | None = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] | None = None
    seed: Annotated[int, Field(ge=0, lt=_SEEDS)] | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    user: str | None = None  # says who asks, and changes no output
    drafting: bool = True  # whether tokens are drafted, which changes no output either
    return_token_ids: bool = False  # whether each output also comes as ids

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def includes_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def sampling(self, drawn_seed: int) -> Sampling | None:
        """Return how to sample, with ``drawn_seed`` if no seed is given; None is greedy."""
        temperature = 1.0 if self.temperature is None else self.temperature
        if temperature == 0:
            return None
        seed = drawn_seed if self.seed is None else self.seed
        return Sampling(temperature, self.top_k or 0, self.top_p or 1.0, seed)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options: only with stream")
        if self.return_token_ids and self.stream:
            raise ValueError("return_token_ids: only without stream")
        if not all(self.stops):
            raise ValueError("stop: a text is empty")
        if not all(map(is_unicode, self.stops)):
            raise ValueError("stop: a text has half of a surrogate pair: remove it")
        if self.temperature and self.temperature < COLDEST:
            raise ValueError(
                f"temperature: must be 0, or from {COLDEST:g} to {HOTTEST:g}, "
                f"got {self.temperature:g}"
            )
        return self


Kind = TypeVar("Kind", bound=Body)


class CompletionBody(Body):
    """The body of ``/v1/completions``."""

    prompt: str | list[str] | list[int] | list[list[int]]
    add_special_tokens: bool = True  # as the tokenizer does by default, such as one at the start

    @property
    def prompts(self) -> list[str | list[int]]:
        prompt: Any = self.prompt
        alone = isinstance(prompt, str) or (prompt and isinstance(prompt[0], int))
        return [prompt] if alone else prompt


class Part(_Closed):
    """A part of a message."""

    type: Literal["text"]
    text: str


class ChatMessage(_Closed):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part]
    name: str | None = None

    @property
    def for_template(self) -> dict[str, Any]:
        content = self.content
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        named = {} if self.name is None else {"name": self.name}
        return {"role": self.role, "content": text} | named


class ChatBody(Body):
    """The body of ``/v1/chat/completions``."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST)] | None = None

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError("max_tokens and max_completion_tokens: give one of them")
        return self


def read_body(kind: type[Kind], data: bytes) -> Kind:
    """Return the body in ``data``. Raises RefusedError with all problems found."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise RefusedError("the body is not JSON") from None
    if not isinstance(fields, dict):
        raise RefusedError("the body is not a JSON object")
    for name in _NEUTRAL.keys() & fields.keys():
        if not _is_neutral(name, fields.pop(name)):
            raise RefusedError(
                f"{name} is not supported: leave it out", param=name, code="unsupported_parameter"
            )
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        problems = error.errors()
        first = problems[0]["loc"]
        raise RefusedError(
            "; ".join(explain(problems)), param=str(first[0]) if first else None
        ) from None
    except TascError as error:
        raise RefusedError(str(error)) from None


def _is_neutral(name: str, value: object) -> bool:
    """Return whether a value changes nothing; True is not 1, but 0.0 is 0."""
    same = (other for other in _NEUTRAL[name] if value == other)
    return any(type(value) in (type(other), float) for other in same)


def refusal(error: Exception) -> RefusedError:
    """Return the answer to an error of decoding: the client's if it is about the input."""
    if isinstance(error, InputError):
        return RefusedError(str(error))
    return RefusedError("decoding failed; the server's log has the reason", status=500)
