"""Keywords that have no effect, which jsonschema decides."""

import json

import jsonschema
import pytest

from tasc.decoding.core.grammar import text_test
from tasc.decoding.core.misfit import misfits
from tasc.errors import InputError
from tasc.options.constraint import Constraint
from tasc.schema.keywords import effective

TEXTS = ['"ab"', '"abc"', "1", "null", "[1, 1]", '["a", "a"]', "{}", '{"a": 1}', '{"b": "ab"}']
OF_STRINGS = {"type": "string", "maxLength": 2}
NEUTRAL = [
    {"uniqueItems": False},
    {"minProperties": 0},
    {"not": False},
    {"unevaluatedItems": True},
    {"unevaluatedProperties": {}},
    {"propertyNames": {}},
    {"patternProperties": {}},
    {"dependentSchemas": {}, "dependentRequired": {}},
    {"then": {"type": "null"}, "else": False},
    {"if": {"type": "string"}},
    {"minContains": 2, "maxContains": 3},
]
OF_OTHER_TYPES = [
    {"uniqueItems": True},
    {"contains": {"type": "null"}, "minContains": 2},
    {"minProperties": 2, "maxProperties": 3},
    {"patternProperties": {"a": False}, "propertyNames": False, "unevaluatedProperties": False},
    {"dependentSchemas": {"a": False}, "dependentRequired": {"a": ["b"]}},
    {"unevaluatedItems": False},
]
SCHEMAS = [{}, {"type": ["array", "object"]}, OF_STRINGS]
INSIDE = [
    lambda part: {"type": "object", "properties": {"b": part}, "additionalProperties": False},
    lambda part: {"type": "array", "items": part},
    lambda part: {"anyOf": [part, {"type": "null"}]},
    lambda part: {"$defs": {"x": part}, "$ref": "#/$defs/x"},
]


def assert_same(schema):
    validator = jsonschema.Draft202012Validator(schema)
    accepts = text_test(Constraint.of_schema(schema))
    for text in TEXTS:
        assert accepts(text) == validator.is_valid(json.loads(text)), (schema, text)


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@pytest.mark.parametrize("keywords", NEUTRAL, ids=str)
def test_keywords_without_an_effect_change_nothing(schema, keywords):
    assert_same({**schema, **keywords})


@pytest.mark.parametrize("keywords", OF_OTHER_TYPES, ids=str)
def test_keywords_of_other_types_change_nothing(keywords):
    assert_same({**OF_STRINGS, **keywords})


@pytest.mark.parametrize("wrap", INSIDE)
def test_keywords_without_an_effect_may_be_anywhere(wrap):
    assert_same(wrap({**OF_STRINGS, "uniqueItems": False, "then": {}}))


def test_properties_named_like_keywords_and_values_stay():
    schema = {
        "properties": {"uniqueItems": False, "then": {"type": "null"}},
        "enum": [{"uniqueItems": False}],
        "const": {"minProperties": 0},
        "additionalProperties": {"not": False, "type": "null"},
    }
    assert effective(schema) == schema | {"additionalProperties": {"type": "null"}}


@pytest.mark.parametrize(
    "keywords", [{"uniqueItems": True}, {"if": {}, "then": {}}, {"not": {}}, {"uniqueItems": 0}]
)
def test_keywords_with_an_effect_are_refused_in_one_line(keywords):
    with pytest.raises(InputError, match="cannot be used") as refusal:
        text_test(Constraint.of_schema(keywords))
    assert "\n" not in str(refusal.value)


def test_white_space_that_json_does_not_write_has_a_remedy_that_works():
    constraint = Constraint.of_schema({"type": "array", "items": {"type": "integer"}})
    (why,) = misfits(["[ 1, 2 ]"], constraint)
    assert why.endswith("that json.dumps does not write: write the outputs again with it")
    (why,) = misfits(["[1,2]"], constraint)
    assert 'add "x-json-dumps": {"separators": [",", ": "]} to the schema' in why
    assert not misfits([json.dumps([1, 2])], constraint)
