"""``tasc init`` infers labels and schemas that the outputs satisfy."""

import json

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.commands.starter.infer import infer, schema_of, unfit
from tasc.decoding.core.grammar import Grammar, text_test
from tasc.options.constraint import Constraint

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-2, 2) | st.sampled_from("abc")
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(JSON, min_size=1, max_size=12), JSON)
@settings(deadline=None)  # each schema is compiled in a process of its own
def test_every_output_satisfies_the_schema_that_is_inferred_from_it(values, other):
    schema = schema_of(values)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert all(map(validator.is_valid, values))
    accepts = text_test(Constraint.of_schema(schema))
    assert all(accepts(json.dumps(arranged(schema, value))) for value in values)
    accepted = accepts(json.dumps(arranged(schema, other)))
    # A float without a fraction is an integer to jsonschema.
    assert accepted == validator.is_valid(other) or has_float(other)


def arranged(schema, value):
    """Return a JSON value with its keys in the order of a schema."""
    for form in schema.get("anyOf", [schema]):
        if form.get("type") == "object" and isinstance(value, dict):
            parts = form["properties"]
            known = {n: arranged(parts[n], value[n]) for n in parts if n in value}
            return known | {name: part for name, part in value.items() if name not in parts}
        if "items" in form and isinstance(value, list):
            return [arranged(form["items"], part) for part in value]
    return value


def has_float(value):
    parts = [*value.values()] if isinstance(value, dict) else value
    return any(map(has_float, parts)) if isinstance(parts, list) else isinstance(value, float)


def test_labels_are_inferred_from_few_outputs_that_repeat():
    found = infer(["b c", "a"] * 50, "mine", seed=0)
    assert (found.option, found.file, found.share) == ("choices", "mine-labels.txt", 1.0)
    assert found.text == "a\nb c\n"


@pytest.mark.parametrize(
    "outputs",
    [
        [f"alarm_set, at {i}" for i in range(100)],
        ["a", "b"] * 5,  # too few
        ["a\nb", "c"] * 50,
        ["x" * 65, "c"] * 50,
        ["a"] * 90 + list("bcdefghijk"),  # rare labels: too many held-out outputs are new
    ],
)
def test_other_outputs_have_no_labels(outputs):
    assert infer(outputs, "mine", seed=0) is None


TOPICS = ("local news", "sports", "arts", "law")


def topics(count, delimiter):
    """Lists of one to three topics, in many combinations and orders."""
    rng = np.random.default_rng(1)
    return [delimiter.join(rng.permutation(TOPICS)[: 1 + i % 3]) for i in range(count)]


@pytest.mark.parametrize("delimiter", ["; ", ";", ", ", ",", " | "])
def test_lists_of_labels_become_a_grammar(delimiter, tokenizer):
    outputs = topics(100, delimiter)
    found = infer(outputs, "mine", seed=0)
    assert (found.option, found.file, found.share) == ("grammar", "mine-labels.lark", 1.0)
    assert (found.delimiter, found.is_labels) == (delimiter.strip(), True)
    constraint = Constraint("lark", found.text, "mine")
    accepts = text_test(constraint)
    assert all(map(accepts, outputs))
    assert not any(map(accepts, ["", "chess", "arts" + delimiter, "arts law"]))
    grammar = Grammar(constraint, tokenizer, [])
    assert all(grammar.accepts(tokenizer.encode([o]).tokens.tolist()) for o in outputs[:9])


def test_lists_of_words_are_lists_of_labels_and_sentences_are_not():
    outputs = [text.replace("local news", "news") for text in topics(100, " ")]
    assert infer(outputs, "mine", seed=0) is None
    found = infer(outputs, "mine", seed=0, words=True)
    assert (found.option, found.delimiter) == ("grammar", " ")
    tags = [
        " ".join(["DET", "NOUN", "VERB", "DET", "NOUN"][: 3 + i % 3]) + f" X{i}" for i in range(99)
    ]
    assert infer(tags, "mine", seed=0, words=True) is None  # a label twice: a sequence, no set


@pytest.mark.parametrize(
    "outputs",
    [
        [f"intent: a{i % 3}, slots: {i}" for i in range(100)],  # an open set
        [f"arts, {topic}" for topic in topics(95, ", ")] + ["chess"] * 5,  # arts twice
    ],
)
def test_other_texts_with_delimiters_are_no_lists_of_labels(outputs):
    assert infer(outputs, "mine", seed=0) is None


def test_arrays_of_labels_have_a_schema_with_an_enum():
    outputs = [json.dumps(text.split(";")) for text in topics(100, ";")]
    found = infer(outputs, "mine", seed=0)
    assert (found.option, found.is_labels) == ("schema", True)
    items = {"type": "string", "enum": sorted(TOPICS)}
    assert json.loads(found.text)["items"] == items
    fields = infer([json.dumps({"topics": json.loads(o)}) for o in outputs], "mine", seed=0)
    assert json.loads(fields.text)["properties"]["topics"]["items"] == items
    assert not fields.is_labels


def test_a_schema_has_keys_in_order_and_what_is_required():
    rng = np.random.default_rng(0)
    outputs = [
        json.dumps(
            {"intent": ["set", "off"][i % 2]}
            | ({"note": f"n{i}", "tags": ["x"] * (i % 3)} if i % 2 else {})  # not of the first
            | {"at": int(rng.integers(99))}
        )
        for i in range(200)
    ]
    found = infer(outputs, "mine", seed=0)
    assert (found.option, found.file, found.share) == ("schema", "mine-schema.json", 1.0)
    schema = json.loads(found.text)
    assert list(schema["properties"]) == ["intent", "note", "tags", "at"]
    assert schema["required"] == ["intent", "at"]
    assert schema["properties"]["intent"] == {"type": "string", "enum": ["off", "set"]}
    assert schema["properties"]["note"] == {"type": "string"}
    assert schema["properties"]["tags"]["items"] == {"type": "string", "enum": ["x"]}
    assert schema["additionalProperties"] is False
    assert all(map(text_test(Constraint.of_schema(schema)), outputs))
    assert infer([*outputs[:-4], "{", "no", "[", "x"], "mine", seed=0) is None


@pytest.mark.parametrize(
    ("arguments", "stated"),
    [
        ({}, {"ensure_ascii": True}),
        ({"ensure_ascii": False}, {"ensure_ascii": False}),
        ({"separators": (",", ":")}, {"separators": [",", ":"], "ensure_ascii": True}),
        ({"indent": 2}, {"indent": 2, "ensure_ascii": True}),
        ({"indent": "\t", "separators": (" ,", ":")}, None),
    ],
)
def test_a_schema_describes_how_outputs_are_written(arguments, stated, tokenizer):
    values = [{"b": f"é{i}", "a": [i, i + 1]} for i in range(100)]
    outputs = [json.dumps(value, **arguments) for value in values]
    schema = json.loads(infer(outputs, "mine", seed=0).text)
    assert stated is None or schema["x-json-dumps"] == stated
    grammar = Grammar(Constraint.of_schema(schema), tokenizer, [])
    assert all(grammar.accepts(tokenizer.encode([o]).tokens.tolist()) for o in outputs)


def test_outputs_without_a_schema_are_explained():
    values = [{"b": f"n{i}", "a": i} for i in range(100)]
    turned = [{"a": value["a"], "b": value["b"]} for value in values]
    mixed = [
        json.dumps(value) for pair in zip(values[::2], turned[1::2], strict=True) for value in pair
    ]
    assert infer(mixed, "mine", seed=0) is None
    assert "because of the order of their keys" in unfit(mixed)
    layouts = [json.dumps(value, indent=i % 2) for i, value in enumerate(values)]
    assert infer(layouts, "mine", seed=0) is None
    assert "their layout, json.dumps(…, indent=" in unfit(layouts)
    assert unfit(["a", "b"] * 50) == ""


def test_optional_keys_without_end_may_be_any():
    outputs = [json.dumps({"of": {"x": "y", f"key{i}": i}}) for i in range(2000)]
    found = infer(outputs, "mine", seed=0)
    (values,) = json.loads(found.text)["properties"].values()
    assert values == {
        "type": "object",
        "properties": {"x": {"type": "string", "enum": ["y"]}},
        "required": ["x"],
        "additionalProperties": {"type": "integer"},
    }
    assert found.share == 1.0
    usual = [json.dumps({f"key{k}": i for k in range(150)}) for i in range(99)]
    assert len(json.loads(infer([*usual, "{}"], "mine", seed=0).text)["properties"]) == 150


@pytest.mark.parametrize("odd", ['{"\\ud83d": 1}', '{"a":' * 480 + "1" + "}" * 480])
def test_an_odd_output_spoils_no_schema_that_is_written(odd):
    outputs = [json.dumps({"a": i}) for i in range(600)]
    found = infer([*outputs, odd], "mine", seed=0)
    schema = {} if found is None else json.loads(found.text.encode())
    assert all(map(text_test(Constraint.of_schema(schema)), outputs))


def test_outputs_that_take_too_long_are_not_all_compared(monkeypatch):
    monkeypatch.setattr("tasc.commands.starter.infer._SECONDS", 0.0)
    outputs = [json.dumps({"a": i}) for i in range(99)]
    assert infer([*outputs, "{"], "mine", seed=0).share == 1.0  # of one


def test_a_schema_that_takes_too_long_to_compile_is_not_inferred(monkeypatch):
    outputs = [json.dumps({"a": i}) for i in range(100)]
    assert infer(outputs, "mine", seed=0) is not None
    monkeypatch.setattr("tasc.decoding.core.grammar._SECONDS", 0.0)
    assert infer(outputs, "mine", seed=0) is None
