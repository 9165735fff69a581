"""``tasc data``: examples as training reads them, in colour or not, and what is cut."""

import io
import json

import pytest
from rich.console import Console
from tasc_cli.commands import data as data_command
from tokenizers import AddedToken
from tokenizers.normalizers import NFC

import tasc
from tasc.errors import InputError
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.core.batch import encode_examples
from tests.cli import done, printed, refused
from tests.data.files import source
from tests.data.test_chat_template import ANSWER, CHATML, USER
from tests.pico import make_tokenizer

ROWS = [{"input": f"wake me up at {n}", "output": f"alarm_set, {n}"} for n in ("nine", "ten")]
STEERING = "\x1b[31m\u202e"


@pytest.fixture
def task(tmp_path):
    return source(tmp_path, ROWS).path


def inspected(task, tokenizer, **options):
    return tasc.inspect_data(tasc.DataOptions(source=task, tokenizer=str(tokenizer), **options))


def encoded(tokenizer, rows, most):
    prompts, outputs = [row["input"] + "\n" for row in rows], [row["output"] for row in rows]
    return encode_examples(tokenizer, prompts, outputs, most)


def test_the_tokens_are_those_that_training_reads_and_learns(task, tokenizer):
    found, seen = inspected(task, tokenizer.path), encoded(tokenizer, ROWS, 512)
    texts = ["".join(token.text for token in sample.tokens) for sample in found.samples]
    assert texts == [f"{row['input']}\n{row['output']}<|endoftext|>" for row in ROWS]
    assert found.together[0] == min(seen.lengths)
    assert found.together[-1] == max(seen.lengths)
    assert (found.examples, found.end, found.chat_template) == (2, "<|endoftext|>", False)


@pytest.mark.parametrize("most", [8, 9, 14, 20, 400])
def test_what_a_training_would_cut_is_shown_and_counted(tmp_path, tokenizer, most):
    rows = [*ROWS, {"input": "a" * 30, "output": "b" * 12}, {"input": "c", "output": "d" * 40}]
    task = source(tmp_path, rows).path
    found = inspected(task, tokenizer.path, samples=9, max_length=most, max_new_tokens=12)
    seen = encoded(tokenizer, rows, most)
    kept = [t for sample in found.samples for t in sample.tokens if t.state != "cut"]
    assert [token.id for token in kept] == seen.tokens.tolist()
    assert [token.state == "learnt" for token in kept] == seen.targets.tolist()
    begins = sum(sample.tokens[0].state == "cut" for sample in found.samples)
    ends = sum(sample.tokens[-1].state == "cut" for sample in found.samples)
    assert (found.cuts.prompts, found.cuts.outputs) == (begins, ends)
    assert found.cuts.unfinished == 1


def test_of_a_long_text_the_cut_tokens_nearest_to_the_others_are_listed(
    capsys, tmp_path, tokenizer
):
    rows = [{"input": "a" * 5000, "output": "b"}, {"input": "c", "output": "d" * 5000}]
    task = source(tmp_path, rows).path
    found = inspected(task, tokenizer.path, max_length=40)
    assert [len(sample.tokens) for sample in found.samples] == [1040, 1041]
    assert [sample.unlisted for sample in found.samples] == [3963, 3962]
    assert {t.text for t in found.samples[0].tokens} == {"a", "b", "\n", "<|endoftext|>"}
    assert found.samples[1].tokens[-1].text == "d"
    out = printed(capsys, "data", task, "--tokenizer", tokenizer.path, "--max-length", 40)
    assert "… 3,963 more tokens at the ends are cut …" in out


def test_bytes_that_are_no_character_are_written_as_bytes(tmp_path, tokenizer):
    task = source(tmp_path, [{"input": "x", "output": "é"}]).path
    texts = [token.text for token in inspected(task, tokenizer.path).samples[0].tokens]
    assert texts == ["x", "\n", "\\xc3", "\\xa9", "<|endoftext|>"]


def test_outputs_that_the_tokenizer_rewrites_are_counted(tmp_path, capsys):
    composed = load_tokenizer(str(make_tokenizer(tmp_path / "nfc"))).tokenizer
    composed.normalizer = NFC()
    composed.save(str(tmp_path / "nfc" / "tokenizer.json"))
    rows = [{"input": "x", "output": text} for text in ("caf\u00e9", "cafe\u0301", "cafe")]
    task = source(tmp_path, rows).path
    found = inspected(task, tmp_path / "nfc")
    assert (found.rewritten, found.first_rewritten) == (1, 2)
    out = printed(capsys, "data", task, "--tokenizer", tmp_path / "nfc")
    assert "1 of 3 outputs change when encoded" in out
    assert out.endswith("the first is example 2\n")


def test_outputs_that_contain_the_end_token_are_counted(tmp_path, tokenizer, capsys):
    texts = ("a", "a<|endoftext|>b", "<|endoftext|>")
    task = source(tmp_path, [{"input": "x", "output": text} for text in texts]).path
    found = inspected(task, tokenizer.path)
    assert (found.ended, found.first_ended, found.rewritten) == (2, 2, 0)
    out = printed(capsys, "data", task, "--tokenizer", tokenizer.path)
    assert "2 of 3 outputs contain the end token <|endoftext|>, where decoding stops" in out
    assert out.endswith("the first is example 2\n")


def test_chats_are_shown_as_the_chat_template_writes_them(tmp_path, tokenizer, capsys):
    loaded = load_tokenizer(str(tokenizer.path)).tokenizer
    loaded.add_special_tokens([AddedToken(m, special=True) for m in ("<|im_start|>", "<|im_end|>")])
    folder = tmp_path / "chatty"
    folder.mkdir()
    loaded.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHATML}))
    task = source(tmp_path, [{"messages": [USER, ANSWER]}]).path
    out = printed(capsys, "data", task, "--tokenizer", folder)
    assert "read as chats (messages)" in out
    assert f"The chat template of {folder} writes the prompts." in out
    assert "<|im_end|>│\\n\n    <|im_start|>│" in out
    assert "4│<|im_end|>" in out
    assert inspected(task, folder).chat_notes == ()
    trims = CHATML.replace("{{ m.content }}", "{{ m.content | trim }}")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": trims}))
    spaced = source(tmp_path, [{"messages": [USER, {**ANSWER, "content": "4\n"}]}]).path
    out = printed(capsys, "data", spaced, "--tokenizer", folder)
    assert "the template's text is learnt: 1 of train" in out
    keyed = source(tmp_path, [{"messages": [USER, {**ANSWER, "grade": "A"}]}]).path
    out = printed(capsys, "data", keyed, "--tokenizer", folder)
    assert "so they have no effect: 'grade' (1 messages)" in out
    said = "choose a tokenizer with one, or pass --template"
    assert said in refused(capsys, "data", task, "--tokenizer", tokenizer.path)
    marked = source(tmp_path, [{"input": "a", "output": "b", "weight": 0}]).path
    out = printed(capsys, "data", marked, "--tokenizer", tokenizer.path)
    assert "every row is learnt whatever these columns contain: 'weight'" in out


def test_without_a_terminal_a_line_says_what_colour_would_say(task, tokenizer, capsys):
    out = printed(capsys, "data", task, "--tokenizer", tokenizer.path, "--max-length", 12)
    assert "\x1b" not in out
    lines = out.splitlines()
    names = [line.partition(" (")[0] for line in lines if line[:2] == "  " != line[2:4]]
    assert names[:3] == ["  cut", "  read", "  learnt"]
    assert "│" in lines[lines.index(next(x for x in lines if x.startswith("  learnt"))) + 1]
    assert "2 of 2 prompts lose their beginning: tasc finetune --max-length 22 keeps all" in out


def test_a_terminal_gets_colours_and_no_separators(capsys, monkeypatch):
    screen = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=60)
    monkeypatch.setattr(data_command, "out", screen)
    data_command._say_tokens([("alarm", 0), (STEERING, 1)], "learnt")
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "alarm" in shown
    assert "│" not in shown
    assert "\x1b[31m" not in shown
    assert "\u202e" not in shown
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Console(file=io.StringIO(), force_terminal=True, width=60)
    monkeypatch.setattr(data_command, "out", screen)
    data_command._say_tokens([("alarm", 0), ("_set", 1)], "learnt")
    assert capsys.readouterr().out == "    alarm│_set\n"


def test_what_would_steer_a_terminal_is_spelled_out(tmp_path, tokenizer, capsys):
    task = source(tmp_path, [{"input": STEERING, "output": STEERING}]).path
    out = printed(capsys, "data", task, "--tokenizer", tokenizer.path)
    assert not set(out) & {"\x1b", "\u202e"}
    assert "\\x1b" in out


def test_long_examples_are_shown_by_both_ends(tmp_path, tokenizer, capsys):
    task = source(tmp_path, [{"input": "b" * 3000, "output": "c" * 4}]).path
    command = ("data", task, "--tokenizer", tokenizer.path, "--max-length", 9000)
    out = printed(capsys, *command)
    assert "tokens not shown" in out
    assert len(out) < 6000
    found = done(capsys, *command)
    assert len(found["samples"][0]["tokens"]) == 3006


def test_a_split_that_is_not_there_is_refused(task, tokenizer):
    with pytest.raises(InputError, match="no split 'test'; it has train: choose one"):
        inspected(task, tokenizer.path, split="test")


def test_nothing_is_written(task, tokenizer, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    printed(capsys, "data", task, "--tokenizer", tokenizer.path)
    assert sorted(tmp_path.rglob("*")) == before
