"""The JSON schema of ``results.json``, as a file and as tables of its parts."""

import json
from typing import Any, Literal

from docs.generate import markdown
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.load import LoadResults
from tasc.report.record import Record

KINDS: dict[str, type[Record]] = {
    "bench": BenchResults,
    "load": LoadResults,
}
FILE = "docs/reference/results.schema.json"


def schema(command: str = "bench") -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of the results that a command writes."""
    made = KINDS[command].model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def tables(block: str) -> str:
    """Return a table of the fields of the file of a command, then one of each part."""
    whole = schema(block.strip())
    parts = {"The file": whole, **whole["$defs"]}
    drawn = (
        f"## {name}\n\n{part['description']}\n\n{_fields(part)}" for name, part in parts.items()
    )
    return "\n\n".join(drawn)


def _fields(part: dict[str, Any]) -> str:
    return markdown.fields(
        ["field", "type", "meaning"],
        [
            [f"`{name}`", _type(field), field.get("description", "")]
            for name, field in part["properties"].items()
        ],
    )


def _type(field: dict[str, Any] | Literal[True]) -> str:
    """Return the type of a field in Markdown, with links to parts; True stands for any value."""
    if field is True:
        return "any value"
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    if "const" in field:
        return f"`{field['const']}`"
    if "prefixItems" in field:
        return f"{len(field['prefixItems'])} × {_type(field['prefixItems'][0])}"
    if "items" in field:
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"by name: {_type(field['additionalProperties'])}"
    return str(field["type"])
