"""Grammars, tokenizers and documents for tests of structured output."""

import json
from typing import Any

from tasc.decoding.core.grammar import Grammar
from tasc.options.constraint import Constraint
from tasc.tokenizer.loaded import LoadedTokenizer

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "intent": {"enum": ["alarm_set", "alarm_query", "audio_volume_up"]},
        "slots": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["intent", "slots"],
    "additionalProperties": False,
}
LARK = """start: "SELECT " name (", " name)* (" WHERE " name " = " value)?
name: /[a-z]{1,8}/
value: /[0-9]{1,3}/"""
VALID = {
    "schema": [
        '{"intent": "alarm_set", "slots": {}}',
        '{"intent": "audio_volume_up", "slots": {"time": "é \\" 5"}}',
    ],
    "lark": ["SELECT a", "SELECT name, city WHERE age = 42"],
    "regex": ["ab 1", "ccccc 1234567"],
}
INVALID = {
    "schema": [
        '{"intent": "other", "slots": {}}',
        '{"intent": "alarm_set"}',
        '{"intent": "alarm_set", "slots": {"a": 1}}',
    ],
    "lark": ["SELECT", "SELECT a,b", "select a", "SELECT a WHERE b = c"],
    "regex": ["a 1", "ab 1 ", "ab"],
}


def constraint(kind: Any) -> Constraint:
    if kind == "schema":
        return Constraint.of_schema(SCHEMA)
    text = LARK if kind == "lark" else r"[a-c]{2,5} \d+"
    return Constraint(kind, text, kind)


def grammar(tokenizer: LoadedTokenizer, kind: str = "schema") -> Grammar:
    return Grammar(constraint(kind), tokenizer, (tokenizer.eos_id,))


def write(value: Any) -> str:
    """Write JSON as the grammars lay it out."""
    return json.dumps(value, ensure_ascii=False)
