"""Why outputs do not satisfy a constraint, and what to change."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from tasc.data.foreign import json_value
from tasc.decoding.core.grammar import text_test
from tasc.options.constraint import Constraint
from tasc.schema.layout import KEY, Layout, laid_out, layout_in, respelled, tokens

_EXPLAINED = 200  # outputs
_SHOWN = 40  # characters of an output


def misfits(outputs: Iterable[str], constraint: Constraint) -> list[str]:
    """Return why some of ``outputs`` do not satisfy a constraint, the most frequent reason first.

    Each is one line that begins with a number of outputs. At most 200 outputs are explained.
    Raises InputError if the constraint cannot be used.
    """
    accepts = text_test(constraint)
    rejected = (text for text in outputs if not accepts(text))
    reasons = Counter(_reason(text, constraint, accepts) for text in islice(rejected, _EXPLAINED))
    return [f"{count:,} {reason}" for reason, count in reasons.most_common()]


def _reason(text: str, constraint: Constraint, accepts: Callable[[str], bool]) -> str:
    if constraint.kind != "schema":
        return f"cannot be written under {constraint.name}: correct it"
    try:
        value = json_value(text)
    except (ValueError, RecursionError):
        return "are not JSON: correct them"
    schema, layout = json.loads(constraint.text), constraint.layout or Layout()
    if problem := _violation(value, schema):
        return f"violate the schema ({problem}): correct the schema or the outputs"
    if not _is_unicode(value):
        return "contain half of a surrogate pair, which is no text: correct the escape"
    if _repeats_keys(text):
        return "repeat a key in an object: leave one of them"
    return _spelling(text, value, schema, layout, accepts) or _place(text)


def _is_unicode(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _repeats_keys(text: str) -> bool:
    """Return whether an object in a JSON text has a key twice, of which parsers keep one."""
    counts = list[int]()

    def count(pairs: list[tuple[str, object]]) -> None:
        counts.append(len(pairs) - len(dict(pairs)))

    json.loads(text, object_pairs_hook=count)
    return any(counts)


def _violation(value: object, schema: Mapping[str, Any]) -> str:
    """Return which keyword a value violates; an empty text if none, or without jsonschema."""
    try:
        from jsonschema import exceptions, validators
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError:
        return ""
    try:
        error = exceptions.best_match(
            validators.validator_for(schema)(schema, registry=Registry()).iter_errors(value)
        )
    except (Unresolvable, ValueError, OverflowError, RecursionError, TypeError, KeyError):
        return ""
    return "" if error is None else f"{error.validator} at {error.json_path}"


def _spelling(
    text: str,
    value: object,
    schema: object,
    layout: Layout,
    accepts: Callable[[str], bool],
) -> str:
    """Return the difference between a text and the constraint's spelling of the same document."""
    parts = tokens(text)
    text_layout = layout_in([text]) or layout
    where = f"their layout, {text_layout}: add {_stated(text_layout)} to the schema"
    if laid_out(parts, text_layout) != text:
        where = "white space that json.dumps does not write: write the outputs again with it"
    null = f'state "ensure_ascii": null under {KEY} of the schema, or '
    free = layout.ensure_ascii is None
    escapes = f"their escapes: {'' if free else null}write the outputs again with json.dumps"
    ordered = (
        "the order of their keys: list properties in that order, or write the outputs again in the "
        "schema's"
    )
    numbers = "the spelling of their numbers: write the outputs again with json.dumps"
    plain = respelled(parts, string=lambda part: _string(part, layout))
    tries = (
        (laid_out(parts, layout), where),
        (
            laid_out(
                plain,
                Layout(text_layout.item_separator, text_layout.key_separator, text_layout.indent),
            ),
            escapes,
        ),
        (laid_out(plain, layout), f"their escapes, and {where}"),
        (laid_out(respelled(plain, number=_number), layout), numbers),
        (layout.dumps(_arranged(value, _ranks(schema))), ordered),
    )
    for written, why in tries:
        if accepts(written):
            return f"satisfy the schema, but cannot be decoded because of {why}"
    return ""


def _stated(layout: Layout) -> str:
    return json.dumps({KEY: layout.arguments})[1:-1]


def _string(part: str, layout: Layout) -> str:
    return json.dumps(json.loads(part), ensure_ascii=bool(layout.ensure_ascii))


def _number(part: str) -> str:
    return json.dumps(json.loads(part))


def _place(text: str) -> str:
    return (
        f"satisfy the schema, but its grammar does not allow them, such as {text!r:.{_SHOWN}}: "
        "simplify the schema"
    )


def _ranks(schema: object) -> dict[str, int]:
    """Number the properties of a schema in the order in which it has them."""
    ranks: dict[str, int] = {}

    def visit(part: object) -> None:
        if isinstance(part, Mapping):
            properties = part.get("properties")
            for name in properties if isinstance(properties, Mapping) else ():
                ranks.setdefault(name, len(ranks))
        inner = part.values() if isinstance(part, Mapping) else part
        if isinstance(inner, Collection) and not isinstance(inner, str):
            for one in inner:
                visit(one)

    visit(schema)
    return ranks


def _arranged(value: Any, ranks: Mapping[str, int]) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: ranks.get(name, len(ranks)))
        return {name: _arranged(value[name], ranks) for name in names}
    if isinstance(value, list):
        return [_arranged(part, ranks) for part in value]
    return value
