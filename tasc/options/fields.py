"""Types of option fields, with their parsing and checks, and messages for what is wrong."""

import re
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from tasc.errors import TascError
from tasc.options.bounds import MOST, check_temperature
from tasc.options.references import expand_user

LONGEST = 2**20  # tokens per sequence
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]  # valid for the generators of all libraries
Count = Annotated[int, Field(ge=0, le=MOST)]
Positive = Annotated[int, Field(ge=1, le=MOST)]
Tokens = Annotated[int, Field(ge=1, le=LONGEST)]
_LIMITS = {"greater_than_equal": "ge", "less_than_equal": "le"}


@dataclass(frozen=True)
class Shell:
    """How a field appears on the command line, if not by its own name and default."""

    name: str = ""  # of the option, without dashes
    argument: bool = False  # whether it is positional
    default: str = ""  # shown in the help instead of the default
    aliases: tuple[str, ...] = ()  # older names on the command line, in recipes and in Python


def explain(errors: list[Any]) -> list[str]:
    """Return a phrase per pydantic error: the key, the problem and the value found."""
    return [_phrase(error) for error in errors]


def _phrase(error: Any) -> str:  # noqa: ANN401 - pydantic's mapping
    key = ".".join(str(part) for part in error["loc"]) or "(top level)"
    match error["type"]:
        case "extra_forbidden":
            return f"{key}: unknown key"
        case "missing":
            return f"{key}: missing"
        case "value_error":
            return str(error["ctx"]["error"])
    seen = reprlib.repr(error["input"])
    problem = error["msg"]
    limit = repr(error.get("ctx", {}).get(_LIMITS.get(error["type"])))
    if "e-" in limit or "e+" in limit:  # pydantic writes out all zeros
        problem = f"{problem.rpartition(' ')[0]} {limit}"
    return f"{key}: {problem[0].lower()}{problem[1:]}, got {seen}"


@contextmanager
def as_value_error() -> Iterator[None]:
    """Turn a TascError into the ValueError that pydantic collects with other problems."""
    try:
        yield
    except TascError as error:
        raise ValueError(str(error)) from None


# A path with a leading ~ expanded
UserPath = Annotated[str, AfterValidator(as_value_error()(expand_user))]


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")


# Text in which \\n means a newline, which is hard to type in shells and YAML. It is decoded here,
# so that the command line, recipes and Python give the same prompt.
Unescaped = Annotated[str, AfterValidator(_unescaped)]
Text = Annotated[str, Field(min_length=1), AfterValidator(_unescaped)]  # the same, not empty


@as_value_error()
def _warm(temperature: float | None) -> float | None:
    if temperature is not None:
        check_temperature(temperature)
    return temperature


Temperature = Annotated[float | None, Shell(default="greedy"), AfterValidator(_warm)]


def _numbers(value: object, info: ValidationInfo) -> object:
    """Accept numbers with commas between; in a recipe, one number needs no quotes."""
    text = str(value) if type(value) is int else value
    if isinstance(text, str) and not re.fullmatch(r"[0-9]{1,3}(,[0-9]{1,3})*", text):
        raise ValueError(
            f"{info.field_name}: got {text!r:.60}, give numbers up to 999 as in 1,8,32"
        )
    return text


Numbers = Annotated[str, BeforeValidator(_numbers)]
Split = Annotated[str, Field(description="Split of the data to use.")]
CorpusSplit = Annotated[str, Field(description="Split whose outputs the drafters may use.")]
Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    Field(description="Device to run models on (auto = a GPU if any)."),
]
Dtype = Annotated[
    Literal["float32", "bfloat16", "auto"],
    Field(description="Data type of the model weights (auto = as stored in the model folder)."),
]
DecodingDtype = Annotated[
    Literal["float32", "bfloat16", "int8", "auto"],
    Field(
        description="Data type of the model weights (auto = as stored in the model folder; on a "
        "CPU, bfloat16 if it multiplies in it, else float32; int8 = linear layers and their inputs "
        "in 8 bits, other activations as with auto, on a CPU with AVX2 or NEON)."
    ),
]
MODEL = "Model folder, GGUF file, smollm2, gemma3-270m or Hub id"
TOKENIZER = Field(
    description="Tokenizer or model folder, tokenizer file, smollm2, gemma3-270m or Hub id."
)
