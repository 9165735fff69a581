"""Error messages for the problems that pydantic finds."""

import reprlib
from typing import Any

_LIMITS = {"greater_than_equal": "ge", "less_than_equal": "le"}


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
