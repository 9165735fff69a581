"""Chats and instructions: what is recognised, and which turns become examples."""

import json
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasc.analysis.scan import scan
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.data.stream import open_stream
from tasc.options.texts import MAIN, Texts
from tests.data.files import as_parquet, contents, message, read, source, write

SYSTEM = {"role": "system", "content": "Be brief."}
ASK, SAY = {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}
MORE, TOO = {"role": "user", "content": "And 3 + 3?"}, {"role": "assistant", "content": "6"}
CHAT = [SYSTEM, ASK, SAY, MORE, TOO]


def weighted_row(marks):
    return {"messages": [ASK, {**SAY, **marks}]}


def test_each_answer_of_a_chat_is_an_example_after_all_that_precedes_it(tmp_path):
    corpus = read(tmp_path, [{"messages": CHAT}])
    assert corpus.outputs == ["4", "6"]
    first, second = (example.turn for example in corpus.examples)
    assert (first.before, first.answer) == ((SYSTEM, ASK), SAY)
    assert (second.before, second.answer) == ((SYSTEM, ASK, SAY, MORE), TOO)
    assert corpus.examples[0].input == "Be brief.\n2 + 2?"
    assert corpus.recognised == "chats"


def test_a_chat_is_the_same_in_every_shape_and_file(tmp_path):
    spoken = {"system": "system", "user": "human", "assistant": "gpt"}
    shared = [{"from": spoken[m["role"]], "value": m["content"]} for m in CHAT]
    wanted = read(tmp_path, [{"messages": CHAT}]).examples
    assert read(tmp_path, [{"conversations": shared}]).examples == wanted
    assert read(tmp_path, [{"conversations": CHAT}]).examples == wanted
    for row in ({"messages": CHAT}, {"conversations": shared[1:], "system": "Be brief."}):
        as_parquet([row], tmp_path / "t.parquet")
        assert load(Source(str(tmp_path / "t.parquet")), "train").examples == wanted


def test_only_some_rows_may_have_a_system_prompt_or_tools(tmp_path):
    alone, own = {"messages": CHAT[1:3]}, {"messages": CHAT[:3], "system": "Ramble."}
    rows = [alone | {"system": "Be brief.", "tools": None}, alone, alone | {"system": " "}, own]
    firsts = [example.turn.before[0] for example in read(tmp_path, rows).examples]
    assert firsts == [SYSTEM, ASK, ASK, SYSTEM]
    corpus = read(tmp_path, rows[:1], template="{system}: {input}")
    assert corpus.prompts == ["Be brief.: 2 + 2?"]


def test_a_completion_alone_has_answers(tmp_path):
    corpus = read(tmp_path, [{"prompt": CHAT[:4], "completion": [TOO]}])
    assert corpus.outputs == ["6"]
    assert corpus.examples[0].turn.before == tuple(CHAT[:4])


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_prompts_and_completions_in_text_follow_each_other(tmp_path, kind):
    rows = [{"id": "1", "prompt": "The sky is", "completion": " blue."}]
    path = write(tmp_path / f"task.{kind}", contents(kind, tmp_path, rows))
    corpus = load(Source(path), "train")
    assert (corpus.prompts, corpus.outputs) == (["The sky is"], [" blue."])
    assert corpus.recognised == "prompts and completions"


def test_an_instruction_stands_before_its_input(tmp_path):
    corpus = read(tmp_path, [{"instruction": "Add.", "input": "2 and 2", "output": "4"}])
    assert corpus.prompts == ["Add.\n2 and 2\n"]
    assert corpus.recognised == "instructions with inputs"
    corpus = read(tmp_path, [{"instruction": "Add 2 and 2.", "output": "4"}])
    assert corpus.prompts == ["Add 2 and 2.\n"]


def test_columns_that_were_named_win_even_where_they_are_the_default_ones(tmp_path):
    row = {"instruction": "Add.", "input": "2 and 2", "output": "4", "messages": CHAT}
    named = read(tmp_path, [row], named=frozenset({"input_column"}))
    assert (named.prompts, named.recognised) == (["2 and 2\n"], "")
    assert read(tmp_path, [row], input_column="instruction").prompts == ["Add.\n"]
    assert read(tmp_path, [row], template="{input}:").prompts == ["2 and 2:"]
    del row["instruction"]
    assert read(tmp_path, [row]).prompts == ["2 and 2\n"]  # default columns win over chats
    chat = source(tmp_path, [{"messages": CHAT}], named=frozenset({"output_column"}))
    assert "no column 'input'; it has messages" in message(chat)


def test_a_template_writes_the_messages_without_roles(tmp_path):
    corpus = read(tmp_path, [{"messages": CHAT[:3], "id": 7}], template="{id}: {input}\n> ")
    assert corpus.prompts == ["7: Be brief.\n2 + 2?\n> "]


def test_prompts_that_no_chat_template_wrote_are_refused(tmp_path):
    with pytest.raises(Exception, match=r"the tokenizer has no chat template: .*--templ"):
        _ = read(tmp_path, [{"messages": CHAT}]).prompts


def test_turns_without_text_are_left_out_and_counted(tmp_path):
    call = {"role": "assistant", "content": None, "tool_calls": [{"name": "add"}]}
    tools = [{"type": "function", "function": {"name": "add"}}]
    rows = [
        {"messages": [SAY, ASK, call, {"role": "tool", "content": "4"}, SAY], "tools": tools},
        {"messages": [ASK], "tools": None},
    ]
    corpus = read(tmp_path, rows)
    assert (corpus.outputs, corpus.dropped) == (["4"], 2)
    turn = corpus.examples[0].turn
    assert turn.before[2] == {"role": "assistant", "tool_calls": [{"name": "add"}]}
    assert turn.tools == tools


def test_an_analysis_counts_what_the_assistant_writes(tmp_path):
    given = source(tmp_path, [{"messages": CHAT}])
    for stream in (open_stream(given, "train"), load(given, "train")):
        found = scan(stream)
        assert (found.samples, found.output.words.words) == (2, 2)
        assert found.sample.texts.count("6") == 1
    assert open_stream(given, "train").recognised == "chats"


def test_the_fingerprint_knows_roles(tmp_path):
    other = [{**SYSTEM, "role": "user"}, *CHAT[1:]]
    prints = {read(tmp_path, [{"messages": chat}]).fingerprint for chat in (CHAT, other)}
    assert len(prints) == 2


def test_prompts_and_completions_without_rows_are_an_empty_split(tmp_path):
    path = write(tmp_path / "t.csv", b"prompt,completion\n")
    assert "the split 'train' is empty" in message(Source(path))
    table = pa.table({"prompt": pa.array([], pa.string()), "completion": pa.array([], pa.string())})
    pq.write_table(table, tmp_path / "t.parquet")
    assert "the split 'train' is empty" in message(Source(str(tmp_path / "t.parquet")))


def test_a_message_may_have_a_date(tmp_path):
    table = pa.table({"messages": [[{**message, "at": datetime(2026, 1, 2)} for message in CHAT]]})
    pq.write_table(table, tmp_path / "t.parquet")
    turn = load(Source(str(tmp_path / "t.parquet")), "train").examples[0].turn
    assert str(turn.before[0]["at"]).startswith("2026-01-02")


def test_a_message_may_come_in_parts_of_text(tmp_path):
    parts = [{"type": "text", "text": "2 + "}, {"type": "text", "text": "2?"}]
    said = read(tmp_path, [{"messages": [{**ASK, "content": parts}, SAY]}])
    assert said.examples == read(tmp_path, [{"messages": [ASK, SAY]}]).examples


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"messages": "hello"}, "task.jsonl:1: column 'messages' is not a chat; write a list"),
        ({"messages": ["hello"]}, "column 'messages' is not a chat"),
        ({"messages": [{"author": "a", "text": "b"}]}, "has no role, only author, text"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "write text parts"),
        ({"messages": CHAT, "tools": "no json"}, "column 'tools' has no tools: write a list"),
        ({"messages": CHAT, "tools": ["add"]}, "column 'tools' has no tools: write a list"),
        ({"prompt": CHAT, "completion": "4"}, "column 'completion' is not a chat"),
        (weighted_row({"weight": 0.5}), "has weight 0.5, but an answer is learnt or not: write 0"),
        (weighted_row({"weight": -1}), "has weight -1, but"),
        (weighted_row({"loss": "much"}), "has loss 'much', but"),
        (
            weighted_row({"weight": 1, "train": False}),
            "contradictory marks, weight 1 and train False",
        ),
        (weighted_row({"train_detail": [{"text": "a"}]}), "but an answer is learnt or not"),
        ({"messages": [{"role": "user", "body": "b"}, SAY]}, "has no content, only body; write a"),
        ({"messages": "[1, 2]"}, "column 'messages' is not a chat"),
        ({"messages": "[{"}, "column 'messages' is not a chat"),
        ({"messages": []}, "no message with text of the role assistant"),
        ({"messages": [ASK]}, "no message with text of the role assistant"),
    ],
)
def test_what_is_no_chat_is_told_in_one_line(tmp_path, row, words):
    assert words in message(source(tmp_path, [row]))


def test_a_chat_of_too_many_answers_is_refused_at_once(tmp_path):
    pair = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
    assert len(read(tmp_path, [{"messages": pair * 200}]).examples) == 200
    told = message(source(tmp_path, [{"messages": pair * 201}]))
    assert "a chat with 201 answers" in told
    assert told.endswith("split it into chats of 200 at most")


MARKS = ["weight", "train", "training", "loss", "loss_scale", "loss_weight", "loss_mask"]
MARKS.append("trainable")
UNKNOWN = [
    "mask",
    "no_loss",
    "ignore",
    "train_on_turn",
    "is_masked",
    "skipLoss",
    "exclude",
    "LEARN",
]


def weighted(**marks):
    """A chat of two answers, the first of which has marks."""
    return {"messages": [ASK, {**SAY, **marks}, MORE, TOO]}


@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("mark", [0, 0.0, False, "0", "false", -0.0])
def test_an_answer_that_is_marked_is_context_only(tmp_path, name, mark):
    corpus = read(tmp_path, [weighted(**{name: mark})])
    assert (corpus.outputs, corpus.dropped) == (["6"], 0)
    # The mark is no part of the context: a template could print it.
    assert corpus.examples[0].turn.before == (ASK, SAY, MORE)


@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("mark", [1, 1.0, True, "1", "true", None, float("nan")])
def test_an_answer_is_learnt_whose_mark_is_one_or_missing(tmp_path, name, mark):
    marked, plain = (read(tmp_path, [weighted(**m)]) for m in ({name: mark}, {}))
    assert marked.examples == plain.examples


@pytest.mark.parametrize(
    ("mark", "outputs"), [(1, ["6"]), ("true", ["6"]), (False, ["4", "6"]), (None, ["4", "6"])]
)
def test_a_masked_answer_is_context_only(tmp_path, mark, outputs):
    corpus = read(tmp_path, [weighted(masked=mark)])
    assert corpus.outputs == outputs
    assert corpus.examples[-1].turn.before == (ASK, SAY, MORE)
    part = {"type": "text", "text": "4", "masked": mark}
    assert read(tmp_path, [weighted(content=[part])]).outputs == outputs
    assert read(tmp_path, [weighted(masked=False, weight=1)]).outputs == ["4", "6"]


def test_a_mark_of_the_other_sense_is_advised_in_its_sense(tmp_path):
    told = message(source(tmp_path, [weighted(masked="user")]))
    assert told.endswith(
        "has masked 'user', but an answer is learnt or not: write 1 for context only, or 0"
    )
    told = message(source(tmp_path, [weighted(masked=True, weight=1)]))
    assert "has contradictory marks, weight 1 and masked True" in told


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize("value", [True, False, 0, 1.0, "false", [0, 1]])
def test_an_answer_with_an_unknown_mark_is_refused(tmp_path, name, value):
    for row in (weighted(**{name: value}), {"messages": [ASK, SAY], name: value}):
        told = message(source(tmp_path, [row]))
        assert f"has {name} {value!r}, which may exclude answers and is not known: write " in told
    parts = [{"type": "text", "text": "4", name: value}]
    assert "is not known" in message(source(tmp_path, [weighted(content=parts)]))


@pytest.mark.parametrize(
    "key",
    [
        {"mask": None},
        {"mask": "User"},
        {"learning_objective": "sums"},
        {"training_step": 100},
        {"lossless": []},
        {"constraint": True},
        {"bookmark": 1},
        {"reweighted_score": 0.5},
    ],
)
def test_keys_that_are_no_mark_exclude_nothing(tmp_path, key):
    corpus = read(tmp_path, [weighted(**key)])
    assert corpus.outputs == ["4", "6"]
    kept = {name: value for name, value in key.items() if value is not None}
    assert corpus.examples[0].turn.answer == {**SAY, **kept}
    assert read(tmp_path, [{"messages": [ASK, SAY], **key}]).outputs == ["4"]


@pytest.mark.parametrize("name", [*MARKS, "masked"])
@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_a_mark_of_a_row_counts_for_its_answers(tmp_path, name, kind):
    excluded = int(name == "masked")
    rows = [
        {"messages": json.dumps(CHAT) if kind == "csv" else CHAT, name: mark}
        for mark in (excluded, 1 - excluded, None)
    ]
    path = write(tmp_path / f"task.{kind}", contents(kind, tmp_path, rows))
    corpus = load(Source(path), "train")
    assert (corpus.outputs, corpus.dropped) == (["4", "6"] * 2, 1)
    assert corpus.source.mark_columns == (name,)
    assert list(next(open_stream(Source(path), "train").rows()).outputs) == corpus.outputs
    (one,) = read(tmp_path, [weighted(weight=0) | {name: 1 - excluded}]).outputs
    assert one == "6"  # both marks have to allow it


def test_a_weight_of_a_row_that_is_no_mark_is_refused(tmp_path):
    told = message(source(tmp_path, [{"messages": CHAT}, {"messages": CHAT, "weight": 2.0}]))
    assert "task.jsonl:2: the row has weight 2.0, but an answer is learnt or not: write 0" in told
    assert told.endswith("rename a column of another meaning")
    completion = {"prompt": [ASK], "completion": [SAY], "train_on_prompt": True}
    assert "the row has train_on_prompt True" in message(source(tmp_path, [completion]))


def test_marks_beside_texts_are_reported_and_not_read(tmp_path):
    rows = [{"input": "a", "output": "b", "weight": 0, "net_weight": 2.5, "id": 1}]
    corpus = read(tmp_path, rows)
    assert (corpus.outputs, corpus.source.mark_columns) == (["b"], ("weight", "net_weight"))
    assert Texts({MAIN: corpus}).unread_marks.endswith(
        "every row is learnt whatever these columns contain: 'weight', 'net_weight'"
    )
    named = read(tmp_path, rows, input_column="input", output_column="weight")
    assert Texts({MAIN: named}).unread_marks == ""
    used = read(tmp_path, rows, template="{input} {net_weight}:")
    assert used.source.mark_columns == ("weight",)


def test_marks_of_other_roles_are_ignored_and_not_passed_on(tmp_path):
    chat = [{**SYSTEM, "weight": 1}, {**ASK, "train": False}, {**SAY, "weight": 1}]
    (example,) = read(tmp_path, [{"messages": chat}]).examples
    assert example.turn.before == (SYSTEM, ASK)
    assert example.turn.answer == SAY


def test_marks_of_parts_count_if_they_agree(tmp_path):
    off, on = ({"begin_offset": 0, "end_offset": 1, "train": train} for train in (False, True))
    assert read(tmp_path, [weighted(train_detail=[off, off])]).outputs == ["6"]
    assert read(tmp_path, [weighted(train_detail=[on])]).outputs == ["4", "6"]
    assert read(tmp_path, [weighted(train_detail=[])]).outputs == ["4", "6"]
    assert "answers are learnt whole" in message(
        source(tmp_path, [weighted(train_detail=[on, off])])
    )


@pytest.mark.parametrize("name", MARKS)
def test_marks_in_the_parts_of_a_text_count_if_they_agree(tmp_path, name):
    off, on, plain = ({"type": "text", "text": "4", **m} for m in ({name: 0}, {name: 1}, {}))
    for parts, outputs in (([off], ["6"]), ([off, off], ["6"]), ([on, plain], ["44", "6"])):
        assert read(tmp_path, [weighted(content=parts)]).outputs == outputs
    assert "are learnt and parts that are not" in message(
        source(tmp_path, [weighted(content=[off, plain])])
    )
    assert "contradictory marks" in message(source(tmp_path, [weighted(content=[off], weight=1)]))


def test_a_chat_whose_answers_are_all_excluded_is_counted(tmp_path):
    none = {"messages": [ASK, {**SAY, "weight": 0}]}
    corpus = read(tmp_path, [none, {"messages": [ASK, SAY]}, none])
    assert (corpus.outputs, corpus.dropped) == (["4"], 2)
    alone = message(source(tmp_path, [none]))
    assert "that is learnt" in alone
    assert alone.endswith("give answers no weight or 1")


def test_a_completion_may_be_excluded(tmp_path):
    row = {"prompt": [ASK], "completion": [{**SAY, "weight": 0}, MORE, {**TOO, "weight": 1}]}
    assert read(tmp_path, [row]).outputs == ["6"]


def test_an_excluded_answer_enters_no_count(tmp_path):
    given = source(tmp_path, [weighted(weight=0)])
    for stream in (open_stream(given, "train"), load(given, "train")):
        assert scan(stream).sample.texts == ["6"]


@pytest.mark.parametrize(
    "row",
    [
        {"conversations": [{"role": m["role"], "value": m["content"]} for m in CHAT]},
        {"conversations": [{"from": m["role"], "content": m["content"]} for m in CHAT]},
        {"messages": [{"speaker": m["role"].upper(), "text": m["content"]} for m in CHAT]},
        {"dialog": CHAT},
        {"dialogue": [{"from": m["role"], "value": m["content"]} for m in CHAT]},
        {"conversation": [{"role": m["role"].title(), "content": m["content"]} for m in CHAT]},
        {"chat": CHAT},
        {"messages": [{"from": None, "value": None, **m} for m in CHAT]},
        {"messages": {key: [m[key] for m in CHAT] for key in ("role", "content")}},
        {"messages": json.dumps(CHAT)},
    ],
)
def test_chats_are_the_same_under_every_name(tmp_path, row):
    assert read(tmp_path, [row]).examples == read(tmp_path, [{"messages": CHAT}]).examples


@pytest.mark.parametrize("name", ["gpt", "model", "bot", "Chatbot", "AI", "ASSISTANT"])
def test_roles_of_answers_have_many_names(tmp_path, name):
    assert read(tmp_path, [{"messages": [ASK, {"from": name, "value": "4"}]}]).outputs == ["4"]


def test_a_column_of_text_is_no_chat_for_its_name(tmp_path):
    row = {"chat": "hello", "input": "a", "output": "b"}
    assert read(tmp_path, [row]).recognised == ""
    assert "no column 'input'" in message(source(tmp_path, [{"chat": "hello", "answer": "b"}]))


def called(arguments, **more):
    call = {"type": "function", "function": {"name": "add", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call], **more}


def test_a_null_key_is_no_key_at_any_depth(tmp_path):
    arguments = {"a": 1, "b": None, "c": {"d": None}, "e": [{"f": None}, None], "g": [], "h": {}}
    chat = [ASK, called(arguments, name=None), {"role": "tool", "content": "3"}, SAY]
    tools = [{"type": "function", "function": {"name": "add", "description": None}}]
    (example,) = read(tmp_path, [{"messages": chat, "tools": tools}]).examples
    made = example.turn.before[1]
    assert made == called({"a": 1, "c": {}, "e": [{}, None], "g": [], "h": {}})
    assert example.turn.tools == [{"type": "function", "function": {"name": "add"}}]


def test_json_text_is_left_as_it_is(tmp_path):
    """Nulls and fractions of zero in JSON text can be told apart, so they stay."""
    text = '{"b": null, "a": 1.0}'
    tools = '[{"function": {"default": null, "minimum": 0.0}}]'
    row = {"messages": [ASK, called(text), {"role": "tool", "content": "3"}, SAY], "tools": tools}
    as_parquet([row], tmp_path / "t.parquet")
    for corpus in (read(tmp_path, [row]), load(Source(str(tmp_path / "t.parquet")), "train")):
        turn = corpus.examples[0].turn
        assert turn.before[1]["tool_calls"][0]["function"]["arguments"] == text
        assert json.dumps(turn.tools) == tools


def test_whole_numbers_are_integers_whatever_the_column(tmp_path):
    rows = [
        {"messages": [ASK, called({"a": value}), {"role": "tool", "content": "3"}, SAY]}
        for value in (1, 2.5, -3, 2**52 + 1, 1e300)
    ]
    as_parquet(rows, tmp_path / "t.parquet")
    wanted = read(tmp_path, rows)
    found = load(Source(str(tmp_path / "t.parquet")), "train")
    assert found.examples == wanted.examples
    seen = [e.turn.before[1]["tool_calls"][0]["function"]["arguments"]["a"] for e in found.examples]
    assert json.dumps(seen) == "[1, 2.5, -3, 4503599627370497, 1e+300]"


def test_keys_of_a_map_are_keys_of_an_object(tmp_path):
    kind = pa.list_(
        pa.struct({"role": pa.string(), "content": pa.string(), "meta": pa.map_("string", "int8")})
    )
    chat = [{**ASK, "meta": [("b", 1), ("a", 2)]}, {**SAY, "meta": None}]
    pq.write_table(pa.table({"messages": pa.array([chat], kind)}), tmp_path / "t.parquet")
    (example,) = load(Source(str(tmp_path / "t.parquet")), "train").examples
    assert example.turn.before == ({**ASK, "meta": {"b": 1, "a": 2}},)
    assert example.turn.answer == SAY
