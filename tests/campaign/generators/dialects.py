"""Tables in the dialects of CSV, and outputs in the ways in which json.dumps writes them."""

import json
import random
from pathlib import Path

from tasc.commands.starter.infer import schema_of
from tasc.schema.layout import KEY
from tests import documents, tables
from tests.campaign.mutate import dumps, mutate_bytes, mutate_json
from tests.campaign.seeds import ROWS, Seeds

_STATED = [{}, {"indent": 2}, {"separators": [",", ":"]}, {"ensure_ascii": True}, {"indent": "x"}]


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[object]:
    """Return a command on a table, or on outputs with a schema; some of them are damaged."""
    return rng.choice((_table, _outputs))(rng, seeds, sandbox)


def _table(rng: random.Random, _: Seeds, sandbox: Path) -> list[object]:
    rows, separator = tables.table(rng), rng.choice(tables.SEPARATORS)
    data = tables.written(rng, rows, separator)
    path = sandbox / rng.choice(("t.csv", "t.tsv"))
    path.write_bytes(mutate_bytes(rng, data) if rng.random() < 0.3 else data)
    columns = [next(n for n in rows[0] if n.startswith(kind)) for kind in ("input", "output")]
    given = ["analyze", path, "--input-column", columns[0], "--output-column", columns[1]]
    if rng.random() < 0.4:
        given += ["--separator", rng.choice((separator, "comma", "tab", "auto", "^", "ab", ""))]
    return given


def _outputs(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[object]:
    first, arguments = documents.document(rng), documents.settings(rng)
    values = [first, *(documents.changed(rng, first) for _ in range(ROWS - 1))]
    path, schema_file = sandbox / "task.jsonl", sandbox / "schema.json"
    lines = [
        json.dumps({"input": str(i), "output": json.dumps(value, **arguments)})
        for i, value in enumerate(values)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    schema = schema_of(values[: rng.randrange(1, ROWS)])
    if rng.random() < 0.4:
        schema |= {KEY: rng.choice(_STATED)}
    if rng.random() < 0.3:
        schema = mutate_json(rng, schema)
    schema_file.write_text(dumps(schema), encoding="utf-8")
    return ["analyze", path, "--tokenizer", seeds.tokenizer, "--schema", schema_file]
