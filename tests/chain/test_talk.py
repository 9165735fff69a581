"""``tasc chat``: answers are the model's own, whole, in pieces by what they were drafted from."""

import io
import re
import sys

import numpy as np
import pytest
from rich.console import Console
from tasc_cli.commands import chat as command

from tasc.commands.context import at_work
from tasc.commands.conversation.options import ChatOptions
from tasc.commands.conversation.talk import Conversation, _Pieces
from tasc.errors import InputError
from tests.cli import tasc
from tests.data.files import jsonl, write
from tests.decoding.scripted import Scripted
from tests.pico import TEXTS, make_base

FEW = ("--max-new-tokens", 24)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("talk") / "base")


@pytest.fixture
def typed(monkeypatch):
    def give(*lines: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return give


def conversation(model, **options):
    made = ChatOptions(model=str(model), max_new_tokens=24, **options)
    with at_work(made, None) as context:
        return Conversation(made, context)


def test_lines_are_answered_as_plain_decoding_answers_them(capsys, base, typed):
    said = []
    for method in ("tasc-spec", "ar"):
        typed("wake me at six", "", "play some jazz", "wake me at six")
        code, out, err = tasc(capsys, "chat", base, "--method", method, *FEW)
        assert code == 0, err
        said.append(out)
        lines = err.splitlines()
        assert len(lines) == 3
        for line in lines:
            told = r"(\d+) tokens in (\d+) steps, (\d+\.\d\d) a step after the prompt's; [\d,]+ tok"
            assert re.match(told, line), line
    assert said[0] == said[1]
    assert "24 tokens in 24 steps, 1.00 a step after the prompt's" in err
    assert "drafted from" not in err


def test_what_was_accepted_is_told_by_its_source(capsys, tmp_path, base, typed):
    talk = conversation(base)
    first = talk.say("wake me at six", lambda *_: None)
    pieces: list[tuple[str, str]] = []
    again = talk.say("wake me at six", lambda *piece: pieces.append(piece))
    assert again.text == first.text == "".join(text for text, _ in pieces)
    assert again.steps < first.steps  # it remembers what it said
    assert sum(again.accepted.values()) == again.tokens - again.steps
    assert "past outputs" in again.accepted or "logits" in again.accepted
    assert {source for _, source in pieces} - {""} <= set(again.accepted)
    known = write(tmp_path / "known.jsonl", jsonl([{"input": "x", "output": first.text}] * 3))
    told = conversation(base, source=str(known)).say("wake me at six", lambda *_: None)
    assert told.text == first.text
    assert told.accepted.get("corpus", 0) > 0


def test_pieces_hold_whole_characters():
    shown: list[tuple[str, str]] = []
    text = "né 日x".encode()

    def decode(tokens):
        return bytes(tokens).decode(errors="replace")

    class Tells(Scripted):
        observed = 0

        def sources(self):
            return np.array([4, 0, 0, 2, 4, 0, 1, 4], np.uint8)[: self.observed]

    drafter, at = Tells(None), 0
    pieces = _Pieces(decode, drafter, "other", lambda *piece: shown.append(piece))
    for k in (1, 3, 4):
        drafter.observed += k
        pieces.take(np.frombuffer(text, np.uint8)[at : at + k].astype(np.int32))
        at += k
    pieces.end()
    assert shown == [("n", ""), ("é", "corpus"), (" ", ""), ("日", "past outputs"), ("x", "")]


def test_accepted_text_has_the_colour_of_its_source_on_a_terminal(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(
        command, "out", Console(file=screen, force_terminal=True, color_system="truecolor")
    )
    for text, source in (("own ", ""), ("\x1b[31mgiven\n", "corpus"), ("mine", "prompt")):
        command._show(text, source)
    shown = screen.getvalue()
    assert shown.startswith("own ")
    assert "\x1b[38;2;29;39;51;48;2;207;227;245m\\x1b[31mgiven" in shown
    assert "48;2;250;225;189mmine" in shown


def test_a_system_message_that_no_template_takes_is_refused(base):
    with pytest.raises(InputError, match=r"has no chat template .* leave --system out"):
        conversation(base, system="be brief")


def test_answers_to_a_file_are_as_they_were_written(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(command, "out", Console(file=screen))
    monkeypatch.setattr(sys, "stdout", screen)
    command._show("if x:\n\treturn \x1b[31m", "")
    assert screen.getvalue() == "if x:\n\treturn \\x1b[31m"


def test_a_chat_is_written_whole_and_begins_anew(base, monkeypatch):
    talk = conversation(base)
    written = []

    class Template:
        def prompt(self, messages):
            written.append([(m["role"], m["content"]) for m in messages])
            return "\n".join(m["content"] for m in messages)

    talk.template = Template()
    talk.options = talk.options.but(system="be brief")
    talk.forget()
    answer = talk.say("one", lambda *_: None).text
    talk.say("two", lambda *_: None)
    talk.forget()
    talk.say("three", lambda *_: None)
    system = ("system", "be brief")
    assert written[0] == [system, ("user", "one")]
    assert written[1] == [system, ("user", "one"), ("assistant", answer), ("user", "two")]
    assert written[2] == [system, ("user", "three")]


def test_a_message_that_does_not_fit_is_refused_and_forgotten(base):
    talk = conversation(base)
    with pytest.raises(InputError):
        talk.say(TEXTS[0] * 2000, lambda *_: None)
    assert talk.messages == []
    assert talk.say("play some jazz", lambda *_: None).tokens == 24


def test_a_message_that_no_prompt_can_be_made_of_is_forgotten(base):
    class Refuses:
        def prompt(self, messages):
            raise InputError(f"{len(messages)} messages are too many")

    talk = conversation(base)
    talk.template = Refuses()
    for _ in range(2):
        with pytest.raises(InputError, match="1 messages"):
            talk.say("hello", lambda *_: None)
    assert talk.messages == []


def test_with_a_draft_head_both_draft_unless_said_otherwise():
    assert ChatOptions(model="m").drafter.name == "tasc-spec"
    assert ChatOptions(model="m", draft_head="h").drafter.name == "mix"
    assert ChatOptions(model="m", draft_head="h", method="eagle").drafter.name == "eagle"


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # by locale
def test_a_line_that_is_no_utf_8_is_what_is_wrong(capsys, base, monkeypatch, errors):
    given = io.TextIOWrapper(io.BytesIO(b"caf\xe9\nplay some jazz\n"), "utf-8", errors)
    monkeypatch.setattr(sys, "stdin", given)
    code, out, err = tasc(capsys, "chat", base, *FEW)
    assert (code, out[0]) == (2, "\n")  # an answer stands in its question's line
    refused, answered, told = err.splitlines()
    assert "lines that were not answered: 1" in told
    assert "error: the line 'caf\\udce9' is not UTF-8: write it" in refused
    assert "24 tokens in 24 steps" in answered


def test_what_does_not_fit_ends_no_conversation(capsys, base, typed):
    typed(TEXTS[0].replace("\n", " ") * 2000, "play some jazz")
    code, _, err = tasc(capsys, "chat", base, *FEW)
    assert code == 2
    refused, answered, _ = err.splitlines()
    assert refused.startswith("error: ")
    assert refused.endswith("or type /new")
    assert "24 tokens in 24 steps" in answered


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--method", "magic"), "choose from"),
        (("--method", "eagle"), "pass its folder with --draft-head"),
        (("--index", ""), "index is empty"),
        (("--temperature", 0), "got 0: leave out --temperature"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_model_is_loaded(capsys, base, typed, given, said):
    typed("hello")
    code, out, err = tasc(capsys, "chat", base, *given)
    assert (code, out) == (2, "")
    assert said in err
