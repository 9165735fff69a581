"""``tasc chat``: answers are the model's own, in pieces that show what came from drafts."""

import io
import re
import sys

import pytest
import typer
from tasc_cli.commands import chat as command

from tasc.commands.context import at_work
from tasc.commands.conversation import Conversation
from tasc.commands.conversation_options import ChatOptions
from tasc.errors import InputError
from tests.cli import tasc
from tests.data.files import jsonl, write
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


def answered(talk, text):
    """Answer and return the generation, the whole text, and the characters from drafts."""
    pieces: list[tuple[str, bool]] = []
    found = talk.answer(text, lambda *piece: pieces.append(piece))
    whole = "".join(piece for piece, _ in pieces)
    return found, whole, sum(len(piece) for piece, drafted in pieces if drafted)


def test_lines_are_answered_as_plain_decoding_answers_them(capsys, base, typed):
    printed = []
    for method in ("tasc-spec", "ar"):
        typed("wake me at six", "", "play some jazz", "wake me at six")
        code, out, err = tasc(capsys, "chat", base, "--method", method, *FEW)
        assert code == 0, err
        printed.append(out)
        _, *lines = err.splitlines()
        assert len(lines) == 3
        for line in lines:
            assert re.match(r"\d+ tokens in \d+ steps, \d+ from drafts; [\d,]+ tokens/s", line), (
                line
            )
    assert printed[0] == printed[1]
    assert "24 tokens in 24 steps, 0 from drafts" in err


def test_text_from_drafts_is_marked(tmp_path, base):
    always = "tasc-spec:budget=12"  # adaptive drafting follows the clock
    talk = conversation(base, method=always)
    first, text, _ = answered(talk, "wake me at six")
    talk.messages.clear()
    again, same, drafted = answered(talk, "wake me at six")
    assert same == text == talk.tokenizer.decode(first.tokens.tolist())
    assert again.decoding_steps < first.decoding_steps  # drafters know the first answer
    assert drafted > 0
    known = write(tmp_path / "known.jsonl", jsonl([{"input": "x", "output": text}] * 3))
    found, same, drafted = answered(
        conversation(base, source=str(known), method=always), "wake me at six"
    )
    assert same == text
    assert drafted > 0 < sum(found.accepted)


def test_pieces_contain_whole_characters(base, monkeypatch):
    talk = conversation(base)
    _, text, _ = answered(talk, "wake me at six")
    data = "né 日x".encode() + text.encode()[:1] + b"\xc3"
    talk.tokenizer = Bytes(talk.tokenizer, data)
    pieces: list[str] = []
    talk.answer("wake me at six", lambda piece, _: pieces.append(piece))
    assert "".join(pieces).startswith("né 日x")
    assert "\ufffd" not in "".join(pieces[:-1])
    assert pieces[-1] == "\ufffd"


class Bytes:
    """A tokenizer whose texts are the first bytes of ``data``, one per token."""

    def __init__(self, real, data):
        self.real, self.data = real, data

    def encode(self, texts):
        return self.real.encode(texts)

    def decode(self, tokens):
        return self.data[: len(tokens)].decode(errors="replace")


def test_text_from_drafts_is_coloured_on_a_terminal_alone(monkeypatch):
    shown: list[str] = []
    monkeypatch.setattr(typer, "echo", lambda text, nl: shown.append(text))
    monkeypatch.setattr(command.out, "no_color", False)
    for text, drafted in (("own ", False), ("\x1b[31mgiven\n", True)):
        command._show(text, drafted)
    assert shown[0] == "own "
    assert shown[1] == "\x1b[38;2;29;39;51m\x1b[48;2;207;227;245m\\x1b[31mgiven\n\x1b[0m"


def test_answers_to_a_file_are_as_they_were_written(capsys):
    command._show("if x:\n\treturn \x1b[31m", True)
    assert capsys.readouterr().out == "if x:\n\treturn \\x1b[31m"


def test_a_chat_is_written_whole_and_begins_anew(base, monkeypatch):
    talk = conversation(base)
    written = []

    class Template:
        def prompt(self, messages):
            written.append([(m["role"], m["content"]) for m in messages])
            return "\n".join(m["content"] for m in messages)

    talk.template = Template()
    _, answer, _ = answered(talk, "one")
    answered(talk, "two")
    talk.messages.clear()
    answered(talk, "three")
    assert written == [
        [("user", "one")],
        [("user", "one"), ("assistant", answer), ("user", "two")],
        [("user", "three")],
    ]


def test_a_message_that_does_not_fit_is_refused_and_forgotten(base):
    talk = conversation(base)
    with pytest.raises(InputError):
        answered(talk, TEXTS[0] * 2000)
    assert talk.messages == []
    assert len(answered(talk, "play some jazz")[0].tokens) == 24


def test_a_line_that_is_no_utf_8_does_not_end_the_chat(capsys, base, monkeypatch):
    given = io.TextIOWrapper(io.BytesIO(b"caf\xe9\nplay some jazz\n"), "utf-8", "strict")
    monkeypatch.setattr(sys, "stdin", given)
    code, _, err = tasc(capsys, "chat", base, *FEW)
    assert code == 0, err
    assert err.count("24 tokens in") == 2


def test_what_does_not_fit_ends_no_conversation(capsys, base, typed):
    typed(TEXTS[0].replace("\n", " ") * 2000, "play some jazz")
    code, out, err = tasc(capsys, "chat", base, *FEW)
    assert (code, out[0]) == (2, "\n")  # an answer stands in its question's line
    _, refused, answer, told = err.splitlines()
    assert refused.startswith("error: ")
    assert refused.endswith("or type /new")
    assert "24 tokens in 24 steps" in answer
    assert "lines without an answer: 1" in told


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--method", "magic"), "choose from"),
        (("--method", "eagle"), "pass its folder with --draft-head"),
    ],
)
def test_an_unusable_method_is_refused_before_the_model_is_loaded(
    capsys, base, typed, given, said, monkeypatch
):
    monkeypatch.setattr("tasc.commands.conversation.load_model", None)
    typed("hello")
    code, out, err = tasc(capsys, "chat", base, *given)
    assert (code, out) == (2, "")
    assert said in err
