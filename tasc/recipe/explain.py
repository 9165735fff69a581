"""What pydantic finds wrong, in one line."""

from typing import Any


def explain(errors: list[Any], where: str) -> str:
    """Turn pydantic's errors into one line: every wrong key, what was seen, what is allowed."""
    lines = []
    for error in errors:
        key = ".".join(str(part) for part in error["loc"]) or "(top level)"
        if error["type"] == "extra_forbidden":
            lines.append(f"{key}: unknown key")
        elif error["type"] == "missing":
            lines.append(f"{key}: missing")
        elif error["type"] == "value_error":
            lines.append(str(error["ctx"]["error"]))
        else:
            seen = repr(error["input"])[:60]
            lines.append(f"{key}: {error['msg'][0].lower()}{error['msg'][1:]}, got {seen}")
    return f"{where}: " + "; ".join(lines)
