"""Random chats with tools, reasoning, empty contents and weights, and files of each format."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather, ipc

Chat = dict[str, Any]
# An end of turn that is learnt; reasoning and calls, which only some answers have.
TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}"
    "<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "<tool_call>{{ c.function.name }} {{ c.function.arguments | tojson }}</tool_call>{% endfor %}"
    "<|im_end|>{% endgeneration %}{{ '\n' }}"
    "{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = (
    "wake",
    "me",
    "play jazz",
    "naïve",
    "日本",
    "2024-01-02",
    "007",
    "null",
    "a\tb",
    '"x"',
    "<b>",
)
# Values by key. Arrow keeps one type and one order of keys per column, as these do.
_VALUES: dict[str, Callable[[Random], Any]] = {
    "city": lambda rng: rng.choice(WORDS),
    "count": lambda rng: rng.choice([0, 1, -7, 2**52 + 1]),
    "share": lambda rng: rng.choice([1, 2.5, -0.25, 3]),
    "sure": lambda rng: rng.random() < 0.5,
    "tags": lambda rng: [rng.choice(WORDS) for _ in range(rng.randrange(3))],
    "rows": lambda rng: [_some(rng, ("x", "y")) for _ in range(rng.randrange(3))],
    "place": lambda rng: _some(rng, ("x", "y")),
    "x": lambda rng: rng.randrange(9),
    "y": lambda rng: rng.choice(WORDS),
}
ARGUMENTS = ("city", "count", "share", "sure", "tags", "rows", "place")
# Marks of an answer or a row, and whether it is learnt.
MARKS: tuple[tuple[dict[str, Any], bool], ...] = (
    *(({}, True), ({"weight": None}, True), ({"weight": 1}, True), ({"masked": False}, True)),
    *(({"weight": 0}, False), ({"masked": True}, False)),
)


def chats(count: int, seed: int) -> list[Chat]:
    """Return chats; the first has every key, so that Arrow keeps their order."""
    rng = Random(seed)
    return [_first(rng), *(_chat(rng) for _ in range(count - 1))]


def _first(rng: Random) -> Chat:
    answer = {
        **_said("assistant", "Sunny.", reasoning_content="sun", weight=1, masked=False),
        "tool_calls": [_call({key: _full(rng, key) for key in ARGUMENTS})],
    }
    return {
        "messages": [_said("user", "weather"), answer],
        "tools": [_tool(ARGUMENTS)],
        "system": "Be brief.",
        "loss": 1,
    }


def _full(rng: Random, key: str) -> Any:
    whole = {"x": 1, "y": "a"}
    return {"tags": ["a"], "rows": [whole], "place": whole}.get(key) or _VALUES[key](rng)


def _chat(rng: Random) -> Chat:
    messages: list[dict[str, Any]] = []
    for _ in range(rng.randrange(1, 4)):
        messages.append(_said("user", _text(rng)))
        if rng.random() < 0.4:
            calls = [_call(_some(rng, ARGUMENTS)) for _ in range(rng.randrange(1, 3))]
            content = rng.choice([None, "", _text(rng)])
            messages.append({**_said("assistant", content, **_mark(rng)), "tool_calls": calls})
            messages.append(_said("tool", _text(rng)))
        reasoning = {"reasoning_content": _text(rng)} if rng.random() < 0.3 else {}
        messages.append(_said("assistant", _text(rng), **reasoning, **_mark(rng)))
    row: Chat = {"messages": messages}
    if rng.random() < 0.6:
        row["tools"] = [_tool(tuple(_some(rng, ARGUMENTS))) for _ in range(rng.randrange(1, 3))]
    if rng.random() < 0.5:
        row["system"] = _text(rng)
    if rng.random() < 0.3:
        row["loss"] = rng.choice([None, 0, 1, 1])
    return row


def _said(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _mark(rng: Random) -> dict[str, Any]:
    return rng.choice(MARKS)[0]


def _text(rng: Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 6)))


def _some(rng: Random, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: _VALUES[key](rng) for key in keys if rng.random() < 0.5}


def _call(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "look_up", "arguments": arguments}}


def _tool(names: tuple[str, ...]) -> dict[str, Any]:
    properties = {name: {"type": "string", "description": f"The {name}."} for name in names}
    schema = {"type": "object", "properties": properties, "required": list(names[:1])}
    return {"type": "function", "function": {"name": "look_up", "parameters": schema}}


def expected(row: Chat) -> list[tuple[list[dict[str, Any]], list[Any] | None]]:
    """Return the messages up to each answer to learn, and the tools, as a template takes them.

    A mark is no part of a message. Fractions of zero are integers, and null keys are no keys.
    """
    tools = _plain(row.get("tools")) or None
    messages = [
        {key: value for key, value in _plain(message).items() if key not in ("weight", "masked")}
        for message in row["messages"]
    ]
    learnt = [row.get("loss") != 0 and _is_learnt(message) for message in row["messages"]]
    if row.get("system"):
        messages = [{"role": "system", "content": row["system"]}, *messages]
        learnt = [False, *learnt]
    return [
        (messages[: i + 1], tools)
        for i, (message, is_learnt) in enumerate(zip(messages, learnt, strict=True))
        if message["role"] == "assistant" and (message.get("content") or "").strip() and is_learnt
    ]


def _is_learnt(message: dict[str, Any]) -> bool:
    stated = {key: message[key] for key in ("weight", "masked") if key in message}
    return all(is_learnt for marks, is_learnt in MARKS if marks == stated)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _lines(rows: list[Chat], path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _list(rows: list[Chat], path: Path) -> None:
    path.write_text(json.dumps(rows, indent=1))


def _parquet(rows: list[Chat], path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def _typed_parquet(rows: list[Chat], path: Path) -> None:
    """Write Parquet as `datasets` does after it read JSON, which stores mixed objects as JSON."""
    _lines(rows, path.with_suffix(".source.jsonl"))
    given = {"data_files": str(path.with_suffix(".source.jsonl")), "split": "train"}
    made = datasets.load_dataset("json", cache_dir=str(path.parent / "cache"), **given)
    made.to_parquet(path)


def _stream(rows: list[Chat], path: Path) -> None:
    table = pa.Table.from_pylist(rows)
    with ipc.new_stream(str(path), table.schema) as file:
        file.write_table(table, max_chunksize=100)


def _feather(rows: list[Chat], path: Path) -> None:
    feather.write_feather(pa.Table.from_pylist(rows), str(path))


def _saved(rows: list[Chat], path: Path) -> None:
    datasets.Dataset.from_list(rows).save_to_disk(path, num_shards=min(2, len(rows)))


def _saved_splits(rows: list[Chat], path: Path) -> None:
    datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)}).save_to_disk(path)


FORMATS: dict[str, Callable[[list[Chat], Path], None]] = {
    "chats.jsonl": _lines,
    "chats.json": _list,
    "chats.parquet": _parquet,
    "typed.parquet": _typed_parquet,
    "chats.arrow": _stream,
    "chats.feather": _feather,
    "saved": _saved,
    "splits": _saved_splits,
}
