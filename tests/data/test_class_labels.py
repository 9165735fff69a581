"""Names of class labels in files that `datasets` wrote, compared with what it reads."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value
from pyarrow import feather, ipc

from tasc.data.corpus import load, read_table
from tasc.data.source import Source
from tests.data.files import message, pairs

TONE, TAG = ClassLabel(names=["negative", "café au lait", "7"]), ClassLabel(names=["a", "b c"])
FEATURES = Features(
    {
        "input": Value("string"),
        "output": TONE,
        "tags": List(TAG),
        "part": {"tone": TONE, "text": Value("string")},
        "parts": List({"tone": TONE, "tags": List(TAG, length=2)}),
        "year": Value("int64"),
    }
)
ROWS = [
    {
        "input": str(i),
        "output": i % 3,
        "tags": [1, 0, 1][: i % 4],
        "part": {"tone": 2 - i % 3, "text": "t"},
        "parts": [{"tone": i % 3, "tags": [1, 0]}] * (i % 3),
        "year": 1,
    }
    for i in range(7)
]


@pytest.fixture(scope="module")
def made():
    return Dataset.from_list(ROWS, features=FEATURES)


def parquet(made, path):
    made.to_parquet(path)


def arrow(made, path):
    with ipc.new_file(str(path), made.data.schema) as file:
        file.write_table(made.data.table, max_chunksize=2)


def stream(made, path):
    with ipc.new_stream(str(path), made.data.schema) as file:
        file.write_table(made.data.table, max_chunksize=2)


def saved(made, path):
    made.save_to_disk(path, num_shards=2)


WRITERS = {"t.parquet": parquet, "t.arrow": arrow, "t.ipc": stream, "saved": saved}
WRITERS["t.feather"] = lambda made, path: feather.write_feather(made.data.table, str(path))


def spoken(feature, value):
    """A value with the names of its labels, by `datasets`."""
    if isinstance(feature, ClassLabel):
        return feature.int2str(value)
    if isinstance(feature, List):
        return [spoken(feature.feature, entry) for entry in value]
    if isinstance(feature, dict):
        return {name: spoken(feature[name], entry) for name, entry in value.items()}
    return value


def column(path, name):
    """A column as it is read."""
    return list(read_table(Source(str(path), output_column=name), "train").columns[name])


@pytest.mark.parametrize("name", WRITERS)
def test_labels_have_the_names_that_datasets_gives_them(made, tmp_path, name):
    path = tmp_path / name
    WRITERS[name](made, path)
    for key, feature in FEATURES.items():
        assert column(path, key) == [spoken(feature, row[key]) for row in made], key
    assert pairs(path) == [(str(i), TONE.names[i % 3]) for i in range(7)]
    listed = load(Source(str(path), output_column="tags"), "train")
    assert listed.outputs == ["b c", "b c a", "b c a b c", "b c", "b c a"]


@pytest.mark.parametrize("name", WRITERS)
def test_labels_that_are_missing_are_no_output(tmp_path, name):
    """-1 is a missing label in `datasets`, as in the test splits of benchmarks."""
    rows = [{"input": str(i), "output": label} for i, label in enumerate([0, -1, None, 1])]
    features = Features({"input": Value("string"), "output": TONE})
    WRITERS[name](Dataset.from_list(rows, features=features), tmp_path / name)
    corpus = load(Source(str(tmp_path / name)), "train")
    assert (corpus.outputs, corpus.dropped) == (["negative", "café au lait"], 2)


def with_metadata(path, metadata, values=(0, 1)):
    rows = [{"input": str(i), "output": value} for i, value in enumerate(values)]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table.replace_schema_metadata({"huggingface": metadata}), path)
    return Source(str(path))


def of_features(**features):
    return json.dumps({"info": {"features": features}})


LABEL = {"names": ["no", "yes"], "_type": "ClassLabel"}


@pytest.mark.parametrize(
    ("features", "values", "outputs"),
    [
        ({"output": {**LABEL, "num_classes": 2, "id": None}}, (1, 0), ["yes", "no"]),
        ({"output": {"feature": LABEL, "length": -1, "_type": "Sequence"}}, ([1, 0],), ["yes no"]),
        ({"output": [LABEL]}, ([1, 0], [1]), ["yes no", "yes"]),
        ({"output": {"feature": LABEL, "_type": "LargeList"}}, ([1, 0],), ["yes no"]),
        ({"output": LABEL}, ("maybe", "1"), ["maybe", "1"]),  # the column was changed later
        ({"output": LABEL}, (0.5,), ["0.5"]),
        ({"output": {"dtype": "int64", "_type": "Value"}}, (0, 1), ["0", "1"]),
        ({"output": {"languages": ["a"], "_type": "Translation"}}, (0, 1), ["0", "1"]),
        ({"other": LABEL}, (0, 1), ["0", "1"]),
        ({}, (0, 1), ["0", "1"]),
    ],
)
def test_features_of_older_files_and_of_changed_columns(tmp_path, features, values, outputs):
    given = with_metadata(tmp_path / "t.parquet", of_features(**features), values)
    assert load(given, "train").outputs == outputs


def test_a_sequence_of_objects_is_an_object_of_lists(tmp_path):
    """`datasets` before 4 stores it so."""
    inner = {"role": {"names": ["user", "assistant"], "_type": "ClassLabel"}}
    inner |= {"content": {"dtype": "string", "_type": "Value"}}
    features = {"messages": {"feature": inner, "length": -1, "_type": "Sequence"}}
    table = pa.table({"messages": [{"role": [0, 1], "content": ["2 + 2?", "4"]}]})
    metadata = {"huggingface": of_features(**features)}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "t.parquet")
    (example,) = load(Source(str(tmp_path / "t.parquet")), "train").examples
    assert example.turn.before == ({"role": "user", "content": "2 + 2?"},)
    assert example.turn.answer == {"role": "assistant", "content": "4"}


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"{",
        b"\xff",
        b"[1]",
        b"3",
        b'{"info": [1]}',
        b'{"info": {"features": [1]}}',
        b"[" * 10**5,
        b'{"info": {"features": ' + b'{"a": ' * 10**5,
        b'{"info": {"features": ' + b'{"a": ' * 900 + b"1" + b"}" * 902,
        of_features(output={**LABEL, "names": "no"}),
        of_features(output={**LABEL, "names": [1, 2]}),
        of_features(output={**LABEL, "names": None}),
        of_features(output={"_type": "List", "feature": {**LABEL, "names": {}}}),
    ],
)
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_damaged_metadata_is_refused_in_one_line(tmp_path, metadata, kind):
    given = with_metadata(tmp_path / "t.parquet", metadata)
    if kind == "arrow":
        table = pq.read_table(tmp_path / "t.parquet")
        feather.write_feather(table, str(tmp_path / "t.arrow"))
        given = Source(str(tmp_path / "t.arrow"))
    line = message(given)
    assert f"t.{kind}: the metadata of `datasets` are damaged: " in line
    assert line.endswith("; write the file again with datasets")


@pytest.mark.parametrize("metadata", [b"{}", b"null", b'{"info": null}', b'{"info": {}}'])
def test_metadata_without_features_name_nothing(tmp_path, metadata):
    assert load(with_metadata(tmp_path / "t.parquet", metadata), "train").outputs == ["0", "1"]


def test_a_number_without_a_name_is_refused(tmp_path):
    line = message(with_metadata(tmp_path / "t.parquet", of_features(output=LABEL), (0, 2)))
    assert "t.parquet: a class label is 2, but there are 2 names: write the file again" in line
