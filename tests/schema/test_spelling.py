"""Strings and numbers of a schema in each of their spellings, and layouts that a schema states."""

import json
import math
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.decoding.core.grammar import text_test
from tasc.decoding.core.misfit import misfits
from tasc.errors import InputError
from tasc.options.constraint import Constraint
from tasc.schema.layout import KEY, Layout, layout_in

KEYS = {
    "type": "object",
    "properties": {"straße": {"type": "string"}, "a/b": {"enum": ["ü", "x/y", "😀", "\b\x01"]}},
    "required": ["straße", "a/b"],
    "additionalProperties": {"type": "null"},
}
HTML = {
    "type": "object",
    "properties": {"R&D": {"const": "a<>b"}, "it's": {"enum": ["=", "C++ `"]}},
    "required": ["R&D"],
    "additionalProperties": {"type": "string"},
}
CASES = [
    # Values, keys and enums have the escapes that JSON allows, in upper and lower case.
    (KEYS, '{"straße": "\\u00FC\\/\\b\\ud83d\\ude00", "a/b": "ü"}', True),
    (KEYS, '{"stra\\u00dfe": "", "a\\/b": "\\u00fc"}', True),
    (KEYS, '{"stra\\u00DFe": "", "a/b": "x\\/y"}', True),
    (KEYS, '{"straße": "", "a/b": "\\uD83D\\uDE00"}', True),
    (KEYS, '{"straße": "", "a/b": "\\b\\u0001"}', True),
    (KEYS, '{"straße": "", "a/b": "ü", "\\u00e4": null}', True),
    (KEYS, '{"straße": "\\ud83d", "a/b": "ü"}', False),  # half of a character
    (KEYS, '{"straße": "\\x", "a/b": "ü"}', False),
    (KEYS, '{"straße": "", "a/b": "ü", "stra\\u00dfe": null}', False),  # the key again
    (KEYS, '{"straße": "", "a/b": "ü", "\\u0061/b": null}', False),
    # Go and Gson escape what HTML reads, .NET more, in upper case.
    (HTML, '{"R\\u0026D": "a\\u003c\\u003eb", "it\\u0027s": "\\u003d"}', True),
    (HTML, '{"R\\u0026D": "a\\u003C\\u003Eb", "it\\u0027s": "C\\u002B\\u002B \\u0060"}', True),
    (HTML, '{"R&D": "a<>b", "it\'s": "C++ `"}', True),
    (HTML, '{"R\\u0026D": "a<\\u003eb"}', True),
    (HTML, '{"R&D": "a<>b", "R\\u0026D": "="}', False),  # the key again
    (HTML, '{"R\\u0027D": "a<>b"}', False),
    (HTML, '{"R&\\u0044": "a<>b"}', False),  # a letter is written as it is
    ({"type": "string", "pattern": "^[^<]&$"}, '"\\u003e\\u0026"', True),
    ({"type": "string", "pattern": "^[^<]&$"}, '"\\u003c&"', False),
    # Numbers have the spellings that are equal, but true is not 1.
    ({"enum": [1, 1.5, -2.0, "1"]}, "1", True),
    ({"enum": [1, 1.5, -2.0, "1"]}, "1.0", True),
    ({"enum": [1, 1.5, -2.0, "1"]}, "1e0", True),
    ({"enum": [1, 1.5, -2.0, "1"]}, "1.00E+00", True),
    ({"enum": [1, 1.5, -2.0, "1"]}, "-2", True),
    ({"enum": [1, 1.5, -2.0, "1"]}, "true", False),
    ({"enum": [1, 1.5, -2.0, "1"]}, "1.1", False),
    ({"enum": [True]}, "1", False),
    ({"const": 0}, "-0", True),
    ({"const": 0}, "-0.0", True),
    ({"const": [1, {"ä": 10**22}]}, '[1.0, {"\\u00e4": 1e+22}]', True),
    ({"type": "integer"}, "1.0", True),
    ({"type": "integer"}, "1e+16", True),
    ({"type": "integer"}, "-1.7976931348623157e+308", True),
    ({"type": "integer"}, "1.8e+308", False),  # no finite number
    ({"type": "integer"}, "1.5", False),
    ({"type": "integer", "minimum": 3, "multipleOf": 3}, "6.0", True),
    ({"type": "integer", "minimum": 3}, "2.0", False),
    ({"type": "number", "minimum": 0, "maximum": 1}, "5e-05", True),
    ({"type": "number", "minimum": 0, "maximum": 1}, "-5e-05", False),
    ({"type": "number", "minimum": 0, "maximum": 1}, "1e+16", False),
    ({"type": "number", "minimum": 0}, "1e+16", True),
    # Patterns and lengths count characters, not their spellings.
    ({"type": "string", "pattern": "^[ä-ü]{2}é/$"}, '"\\u00e4ü\\u00E9\\/"', True),
    ({"type": "string", "pattern": "^[ä-ü]{2}é/$"}, '"\\u00e4\\u00e9/"', False),
    ({"type": "string", "pattern": "^[^a]$"}, '"\\ud83d\\ude00"', True),
    ({"type": "string", "pattern": "^[^a]$"}, '"\\u0061"', False),
    ({"type": "string", "pattern": "b", "maxLength": 2}, '"\\u00fcb"', True),
    ({"type": "string", "pattern": "b", "maxLength": 2}, '"\\u00fcbx"', False),
    ({"type": "string", "minLength": 2, "maxLength": 2}, '"\\ud83d\\ude00\\/"', True),
    ({"type": "string", "maxLength": 1}, '"\\ud83d\\ude00x"', False),
]


@pytest.mark.parametrize(("schema", "text", "accepted"), CASES)
def test_a_value_is_accepted_in_each_spelling(schema, text, accepted):
    assert text_test(Constraint.of_schema(schema))(text) is accepted
    if accepted:
        jsonschema.validate(json.loads(text), schema)


@pytest.mark.parametrize("stated", [{}, {KEY: {"ensure_ascii": True}}])
def test_the_remedy_of_escapes_works(stated):
    schema = {**stated, "enum": ["R&D"]}
    (why,) = misfits(['"\\u0052&D"'], Constraint.of_schema(schema))
    assert "because of their escapes" in why
    assert "write the outputs again with json.dumps" in why
    assert not misfits([json.dumps("R&D")], Constraint.of_schema(schema))
    (why,) = misfits(['"\\u0026"'], Constraint.of_schema({**stated, "enum": ["&"]})) or [""]
    assert ('"ensure_ascii": null' in why) == bool(stated)


ALPHABET = st.sampled_from('ab0/"\\\n\x7f\u00a0üßé日\ud7ff\ue000\uffff😀\U00010000\U0010ffff')
TEXT = st.text(ALPHABET, max_size=4)


@settings(max_examples=150, deadline=None)  # each is compiled in a process of its own
@given(st.lists(TEXT, min_size=1, max_size=3), st.booleans(), TEXT)
def test_patterns_are_those_of_python(letters, ascii_, other):
    first, *rest = letters
    inside = "".join(f"\\U{ord(c):08x}" for c in sorted(set(first or "a")))
    pattern = f"^[{inside}]+$|^[^{inside}ü-日]{{2,3}}$"
    accepts = text_test(Constraint.of_schema({"type": "string", "pattern": pattern}))
    for text in (first, other, *rest, other[:2] + "ab", first * 2):
        written = json.dumps(text, ensure_ascii=ascii_)
        # Without a line end, where "$" of Python also matches before the last one.
        expected = "\n" not in text and jsonschema.Draft202012Validator({"pattern": pattern})
        assert expected is False or accepts(written) == expected.is_valid(text)


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
def test_a_number_of_an_enum_has_the_spellings_of_json_dumps(number):
    accepts = text_test(Constraint.of_schema({"enum": [number, "other"]}))
    assert accepts(json.dumps(number))
    if float(number).is_integer():
        assert accepts(json.dumps(int(number)))
    nearby = math.nextafter(float(number), math.inf)
    assert math.isinf(nearby) or not accepts(json.dumps(nearby)) or nearby == number
    valid = jsonschema.Draft202012Validator({"type": "integer"}).is_valid(number)
    assert text_test(Constraint.of_schema({"type": "integer"}))(json.dumps(number)) == valid


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (Layout(), {"a": [1, 2], "b": {}}),
        (Layout(",", ":"), {"a": [1, 2], "b": {}}),
        (Layout(",", ": ", "  "), {"a": [1, {"c": []}], "b": {}}),
        (Layout(", ", " : ", "\t", True), {"a": [1, "ü"], "b": {"c": None}}),
        (Layout(",", ":", "", False), {"a": ["ü", [2]], "b": 1}),
    ],
)
def test_a_layout_is_found_in_outputs_and_can_be_stated(given, value):
    written = given.dumps(value)
    assert layout_in([written, "no JSON", "1"]) == given
    for schema in ({KEY: given.arguments}, {KEY: given.arguments, "type": "object"}):
        accepts = text_test(Constraint.of_schema(schema))
        assert accepts(written)
        assert accepts(json.dumps(value, indent=3, separators=(",", "  : "))) is False
    assert Constraint.of_schema({"type": "object"}).written_as([written]).layout == (
        given if given.arguments else None
    )


def test_a_stated_layout_stays_and_outputs_without_json_have_none():
    stated = Constraint.of_schema({"x-guidance": {"item_separator": ",", "key_separator": ":"}})
    assert stated.written_as(['{"a": 1, "b": 2}']) is stated
    assert layout_in(["a", "1", '"x"', "["]) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"x": "\\ud83d"}', "1 contain half of a surrogate pair, which is no text"),
        ('{"x": "\\ude00\\ud83d"}', "1 contain half of a surrogate pair, which is no text"),
        ('{"x": "a", "x": "b"}', "1 repeat a key in an object: leave one of them"),
    ],
)
def test_what_json_parsers_accept_but_is_no_text_is_named(text, reason):
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    (why,) = misfits([text], Constraint.of_schema(schema | {"additionalProperties": False}))
    assert why.startswith(reason)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        (3, "give an object"),
        ({"sort_keys": True}, "give an object"),
        ({"separators": [",", "x"]}, "separators is"),
        ({"separators": [";", ":"]}, "separators is"),
        ({"separators": ","}, "separators is"),
        ({"indent": "--"}, "indent is"),
        ({"indent": -1}, "indent is"),
        ({"indent": True}, "indent is"),
        ({"ensure_ascii": 1}, "ensure_ascii is"),
        ({"ensure_ascii": "yes"}, "ensure_ascii is"),
    ],
)
def test_a_wrong_layout_is_one_line(stated, reason):
    with pytest.raises(InputError, match=reason) as caught:
        Constraint.of_schema({KEY: stated})
    assert "\n" not in str(caught.value)


def test_a_part_that_has_no_indentation_is_refused_with_the_keyword():
    schema = {"type": "object", "patternProperties": {"^a": {}}, KEY: {"indent": 1}}
    with pytest.raises(InputError, match="with an indent, because of patternProperties"):
        text_test(Constraint.of_schema(schema))


RECURSIVE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
            "required": ["v"],
            "additionalProperties": False,
        }
    },
}


@pytest.mark.parametrize("indent", [None, 1])
def test_a_recursive_schema_is_indented_at_each_depth(indent):
    value: dict[str, Any] = {"v": 0}
    for i in range(1, 20):
        value = {"v": i, "next": value}
    accepts = text_test(Constraint.of_schema(RECURSIVE | {KEY: {"indent": indent}}))
    assert accepts(json.dumps(value, indent=indent))
    assert not accepts(json.dumps({"v": 1, "next": {}}, indent=indent))
    assert not accepts(json.dumps(value, indent=2))


def test_an_object_may_have_many_properties_and_any_of_the_optional_ones():
    names = [f"p{i}" for i in range(700)]
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "required": ["p70"],
        "additionalProperties": False,
    }
    accepts = text_test(Constraint.of_schema(schema))
    for chosen in (["p70"], ["p0", "p70"], ["p69", "p70", "p71", "p699"], names):
        assert accepts(json.dumps(dict.fromkeys(chosen, 1)))
    for chosen in ([], ["p0"], ["p70", "p0"], ["p70", "p70x"]):
        assert not accepts(json.dumps(dict.fromkeys(chosen, 1)))
