"""What clients send: the bodies of requests, and what is refused.

A field that is not supported is refused, unless its value asks for what happens anyway.
"""

import json
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasc.data.foreign import json_object, one_line
from tasc.decoding.core.sampling import Sampling
from tasc.errors import InputError, TascError
from tasc.options.bounds import COLDEST, HOTTEST, MOST
from tasc.options.constraint import Constraint
from tasc.options.fields import explain
from tasc.serving.http.logprobs import MOST_TOP
from tasc.serving.http.penalties import Penalties
from tasc.visible import is_unicode

MOST_CHOICES = 32  # of one request
_SEEDS = 2**63
# Fields of the API that are not supported, with the values that change nothing.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "audio": (None,),
    "best_of": (None, 1),
    "echo": (None, False),
    "function_call": (None, "none"),
    "functions": (None, []),
    "logit_bias": (None, {}),
    "metadata": (None, {}),
    "modalities": (None, ["text"]),
    "parallel_tool_calls": (None, True),
    "prediction": (None,),
    "reasoning_effort": (None,),
    "service_tier": (None, "auto", "default"),
    "skip_special_tokens": (None, False),
    "store": (None, False),
    "suffix": (None, ""),
}


# Fields of other servers, with what takes their place.
_REPLACED = {
    "guided_json": 'give structured_outputs with the key "json"',
    "guided_regex": 'give structured_outputs with the key "regex"',
    "guided_choice": 'give structured_outputs with the key "choice"',
    "guided_grammar": 'give structured_outputs with the key "grammar"',
    "grammar": 'give structured_outputs with the key "grammar"',
    "json_schema": 'give response_format, or structured_outputs with the key "json"',
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


class StructuredOutputs(_Closed):
    """The form of outputs, by the names of vLLM: one of these keys."""

    json_: dict[str, Any] | str | None = Field(None, alias="json")
    json_object: Literal[True] | None = None
    regex: Annotated[str, Field(min_length=1)] | None = None
    choice: Annotated[list[str], Field(min_length=1)] | None = None
    grammar: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        stated = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(stated) != 1:
            raise ValueError(
                f"structured_outputs: got {len(stated)} of json, json_object, regex, choice and "
                "grammar: give one"
            )
        return self

    @property
    def constraint(self) -> Constraint:
        """The constraint on outputs. Raises InputError for an invalid one."""
        name = "structured_outputs"
        if self.regex is not None:
            return Constraint("regex", self.regex, name)
        if self.choice is not None:
            return Constraint.of_strings(self.choice, name)
        if self.grammar is not None:
            return Constraint("lark", _lark(self.grammar), name)
        schema = self.json_ if self.json_object is None else {"type": "object"}
        if isinstance(schema, str):
            schema = json_object(schema.encode(), name)
        assert schema is not None
        return Constraint.of_schema(schema, name)


def _lark(grammar: str) -> str:
    """Return a grammar in Lark, which llguidance reads. Raises InputError for a wrong GBNF."""
    try:
        from llguidance.gbnf_to_lark import GbnfToLarkError, any_to_lark
    except ImportError:  # the grammar is refused when it is compiled
        return grammar
    try:
        return str(any_to_lark(grammar))
    except GbnfToLarkError as error:
        raise InputError(
            f"structured_outputs: the grammar is neither Lark nor GBNF ({one_line(error):.200}): "
            "correct it"
        ) from None


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
    structured_outputs: StructuredOutputs | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=HOTTEST)] | None = None
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

    @property
    def penalties(self) -> Penalties:
        return Penalties(
            self.repetition_penalty, self.frequency_penalty or 0.0, self.presence_penalty or 0.0
        )

    @property
    def states_form(self) -> bool:
        """Whether the request says which form outputs have."""
        return self.response_format is not None or self.structured_outputs is not None

    @property
    def constraint(self) -> Constraint | None:
        """The constraint on outputs. Raises InputError for an invalid one."""
        form = self.structured_outputs or self.response_format
        return None if form is None else form.constraint

    @property
    def top_tokens(self) -> int | None:
        """How many likely tokens each position lists; None without log-probabilities."""
        return None

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools that an output may call."""
        return ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.response_format is not None and self.structured_outputs is not None:
            raise ValueError("response_format and structured_outputs: give one of them")
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
    logprobs: Annotated[int, Field(ge=0, le=MOST_TOP)] | None = None

    @property
    def top_tokens(self) -> int | None:
        return self.logprobs

    @property
    def prompts(self) -> list[str | list[int]]:
        prompt: Any = self.prompt
        alone = isinstance(prompt, str) or (prompt and isinstance(prompt[0], int))
        return [prompt] if alone else prompt


class Part(_Closed):
    """A part of a message."""

    type: Literal["text"]
    text: str


class CalledFunction(_Closed):
    """The function of a call; ``arguments`` is a JSON object as text."""

    name: str
    arguments: str


class ToolCall(_Closed):
    """A call of a tool in an answer before."""

    id: str
    type: Literal["function"]
    function: CalledFunction

    @property
    def for_template(self) -> dict[str, Any]:
        """Templates read arguments as an object. Raises InputError if they are none."""
        arguments = json_object(self.function.arguments.encode(), "arguments of a tool call")
        function = {"name": self.function.name, "arguments": arguments}
        return {"id": self.id, "type": self.type, "function": function}


class ChatMessage(_Closed):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    # Fields of answers of other servers, which clients send back.
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    audio: None = None
    function_call: None = None
    refusal: None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.content is None and not self.tool_calls:
            raise ValueError("content: the message has none")
        if self.tool_calls and self.role != "assistant":
            raise ValueError("tool_calls: only an assistant calls tools")
        return self

    @property
    def for_template(self) -> dict[str, Any]:
        """The message as chat templates read it. Raises InputError for a wrong call."""
        content = self.content or ""
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        message: dict[str, Any] = {"role": self.role, "content": text}
        for name in ("name", "tool_call_id"):
            if (value := getattr(self, name)) is not None:
                message[name] = value
        if self.tool_calls:
            message["tool_calls"] = [call.for_template for call in self.tool_calls]
        return message


class Function(_Closed):
    """What a tool does."""

    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: Literal[False] | None = None


class Tool(_Closed):
    """A tool that answers may call."""

    type: Literal["function"]
    function: Function


class ChatBody(Body):
    """The body of ``/v1/chat/completions``."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_TOP)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto"] | None = None

    @property
    def top_tokens(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def used_tools(self) -> list[dict[str, Any]]:
        """The tools that the template writes; none if the choice is "none"."""
        tools = [] if self.tool_choice == "none" else self.tools or []
        return [tool.model_dump(exclude_none=True) for tool in tools]

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(tool["function"]["name"] for tool in self.used_tools)

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs: only with logprobs")
        if self.tool_choice == "auto" and not self.tools:
            raise ValueError("tool_choice: only with tools")
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
    for name in _REPLACED.keys() & fields.keys():
        hint = f"{name} is not supported: {_REPLACED[name]}"
        raise RefusedError(hint, param=name, code="unsupported_parameter")
    choice = fields.get("tool_choice")
    if kind is ChatBody and (choice == "required" or isinstance(choice, dict)):
        raise RefusedError(
            "tool_choice is 'auto' or 'none': no output is forced to call a tool; to get its "
            "arguments, give response_format with its parameters as schema",
            param="tool_choice",
            code="unsupported_parameter",
        )
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
