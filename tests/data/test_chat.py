"""Chats and instructions: what is recognised, and which turns become examples."""

from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasc.analysis.scan import scan
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.data.stream import open_stream
from tests.data.files import as_parquet, contents, message, read, source, write

SYSTEM = {"role": "system", "content": "Be brief."}
ASK, SAY = {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}
MORE, TOO = {"role": "user", "content": "And 3 + 3?"}, {"role": "assistant", "content": "6"}
CHAT = [SYSTEM, ASK, SAY, MORE, TOO]


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
        assert [output for _, output in found.rows].count("6") == 1
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
