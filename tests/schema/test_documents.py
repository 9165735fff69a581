"""Documents in every way that json.dumps writes them: accepted, or refused with the reason.

TASC_DOCUMENTS=5000 tries that many; jsonschema decides which are valid.
"""

import json
import os
from collections import Counter
from random import Random

import jsonschema

from tasc.commands.starter.infer import schema_of
from tasc.decoding.core.grammar import text_test
from tasc.decoding.core.misfit import misfits
from tasc.options.constraint import Constraint
from tests.documents import broken, changed, document, settings

COUNT = int(os.environ.get("TASC_DOCUMENTS", "300"))
NAMED = ("their layout, json.dumps(", "their escapes", "the order of their keys")


def inferred(rng, values, arguments):
    """Return the schema of values, and its constraint for the texts that json.dumps writes."""
    schema = schema_of(values)
    written = [json.dumps(value, **arguments) for value in values]
    return schema, Constraint.of_schema(schema).written_as(written)


def is_valid(validator, text):
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except ValueError:
        return False
    return validator.is_valid(value)


def tried(number):
    """Try documents of one schema; return how many came to which end."""
    rng, ends = Random(number), Counter()
    first, arguments = document(rng), settings(rng)
    values = [first, *(changed(rng, first) for _ in range(rng.randrange(3)))]
    values = [v for v in values if isinstance(v, dict | list)] * rng.choice([1, 1, 6])
    schema, constraint = inferred(rng, values, arguments)
    validator, accepts = jsonschema.Draft202012Validator(schema), text_test(constraint)
    others = [changed(rng, first) for _ in range(3)]
    for i, value in enumerate([*values[:3], *others]):
        for given in (arguments, settings(rng)):
            text = json.dumps(value, **given)
            for text_, kind in ((text, "written"), (broken(rng, text), "broken")):
                accepted, valid = accepts(text_), is_valid(validator, text_)
                assert valid or not accepted, f"{number}: {text_} is accepted by {schema}"
                if valid and kind == "written" and not accepted:
                    (why,) = misfits([text_], constraint)
                    assert any(name in why for name in NAMED), f"{number}: {text_}: {why}"
                own = given is arguments and i < len(values[:3]) and kind == "written"
                if own and not accepted:
                    assert "the order of their keys" in why, f"{number}: {text_}: {why}"
                ends[kind, "accepted" if accepted else "valid" if valid else "invalid"] += 1
    return ends


def test_documents_are_accepted_or_refused_with_the_reason_and_invalid_ones_are_refused():
    ends = sum((tried(number) for number in range(COUNT // 3)), Counter())
    print(dict(ends))  # noqa: T201 - shown with -s
    assert ends["written", "accepted"] > COUNT
    assert ends["written", "invalid"] > COUNT
    assert ends["broken", "invalid"] > COUNT
