"""Forms, penalties, log-probabilities and tools of requests to tasc serve."""

import json
from typing import Any

import numpy as np
import openai
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tasc.serving.http.tools import CallStream, calls_in
from tests.pico import TEXTS, continued
from tests.serving.served import KEY, NAME, make_folder, started

PROMPT = TEXTS[0]
WAKE = {
    "type": "function",
    "function": {
        "name": "wake",
        "description": "Wakes a person up.",
        "parameters": {"type": "object", "properties": {"time": {"type": "string"}}},
    },
}
CALL = '<tool_call>\n{"name": "wake", "arguments": {"time": "nine"}}\n</tool_call>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("forms"))


@pytest.fixture(scope="module")
def plain(folder):
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def client(folder):
    with (
        started(folder, "--max-length", 500) as (url, _),
        openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client,
    ):
        yield client


def complete(client, more=None, **options):
    asked = {"model": NAME, "prompt": PROMPT, "max_tokens": 20, "temperature": 0} | options
    return client.completions.create(**asked, extra_body=more or {})


def chat(client, more=None, **options):
    asked: dict[str, Any] = {"model": NAME}
    asked["messages"] = [{"role": "user", "content": "wake me up"}]
    asked |= {"max_tokens": 100, "temperature": 0}
    return client.chat.completions.create(**asked | options, extra_body=more or {})


def structured(**form):
    return {"structured_outputs": form}


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"regex": "(ab){3}c"}, "abababc"),
        ({"choice": ["only this"]}, "only this"),
        ({"grammar": 'start: "x" "y"~2'}, "xyy"),
        ({"grammar": 'root ::= "x" rest\nrest ::= "z"'}, "xz"),
        ({"json": {"const": {"a": "b"}}}, '{"a": "b"}'),
        ({"json": '{"const": ["b"]}'}, '["b"]'),
    ],
)
def test_outputs_have_the_form_that_vllm_names(client, form, text):
    assert complete(client, structured(**form)).choices[0].text == text
    assert chat(client, structured(**form)).choices[0].message.content == text


def test_any_object_is_a_form(client):
    made = chat(client, structured(json_object=True), max_tokens=400, seed=1)
    if made.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(made.choices[0].message.content), dict)


def own_logprobs(plain, prompt, tokens):
    model = plain[0]
    ids = torch.tensor([[*prompt, *tokens]])
    with torch.inference_mode():
        rows = model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
    return rows.log_softmax(-1)


@pytest.mark.parametrize("sampled", [False, True])
def test_logprobs_are_those_of_the_model_whatever_changes_the_choice(client, plain, sampled):
    options = {"temperature": 1.3, "seed": 5, "frequency_penalty": 1.5} if sampled else {}
    asked = {"return_token_ids": True}
    made = complete(client, asked, logprobs=3, **options).choices[0]
    prompt = plain[1](PROMPT)["input_ids"]
    rows = own_logprobs(plain, prompt, made.token_ids)
    expected = [float(row[token]) for row, token in zip(rows, made.token_ids, strict=True)]
    assert made.logprobs.token_logprobs == pytest.approx(expected, abs=1e-4)
    for row, top in zip(rows, made.logprobs.top_logprobs, strict=True):
        assert max(top.values()) == pytest.approx(float(row.max()), abs=1e-4)
        assert len(top) in (3, 4)
    offsets = made.logprobs.text_offset
    assert offsets[0] == 0
    assert offsets == sorted(offsets)
    pieces = complete(client, logprobs=3, stream=True, **options)
    streamed = [piece.choices[0].logprobs for piece in pieces if piece.choices[0].logprobs]
    values = [value for part in streamed for value in part.token_logprobs]
    assert values == pytest.approx(expected, abs=1e-4)
    assert [at for part in streamed for at in part.text_offset] == offsets


def test_logprobs_of_a_chat_whole_and_streamed(client, plain):
    whole = chat(client, logprobs=True, top_logprobs=2, max_tokens=12).choices[0]
    entries = whole.logprobs.content
    assert all(len(entry.top_logprobs) == 2 for entry in entries)
    assert all(entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob for entry in entries)
    assert all(bytes(entry.bytes).decode(errors="replace") == entry.token for entry in entries)
    pieces = chat(client, logprobs=True, top_logprobs=2, max_tokens=12, stream=True)
    parts = [piece.choices[0].logprobs for piece in pieces]
    streamed = [entry for part in parts if part for entry in part.content]
    assert [entry.token for entry in streamed] == [entry.token for entry in entries]
    assert chat(client, max_tokens=5).choices[0].logprobs is None
    with pytest.raises(openai.BadRequestError, match="only with logprobs"):
        chat(client, top_logprobs=2)


def penalised(plain, prompt, count, repetition, frequency, presence):
    """Decode greedily with vLLM's definition of penalties."""
    model, ids = plain[0], list(prompt)
    for _ in range(count):
        with torch.no_grad():
            row = model(input_ids=torch.tensor([ids])).logits[0, -1]
        for token in set(ids):
            row[token] = row[token] / repetition if row[token] > 0 else row[token] * repetition
        written = ids[len(prompt) :]
        for token in set(written):
            row[token] -= frequency * written.count(token) + presence
        ids.append(int(row.argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("penalties", [(1.3, 0, 0), (1, 0.9, 0), (1, 0, 1.1), (1.2, -0.5, 0.7)])
def test_penalties_are_those_of_vllm_with_and_without_drafts(client, plain, penalties):
    repetition, frequency, presence = penalties
    prompt = plain[1](PROMPT)["input_ids"]
    expected = penalised(plain, prompt, 20, *penalties)
    for drafting in (True, False):
        more = {"repetition_penalty": repetition, "return_token_ids": True, "drafting": drafting}
        given = {"frequency_penalty": frequency, "presence_penalty": presence}
        found = complete(client, more, **given).choices[0].token_ids
        assert found == expected[: len(found)]


def test_tools_are_in_the_prompt_and_calls_in_the_answer(client, plain):
    tools, form = [WAKE], structured(choice=[CALL])
    made = chat(client, form, tools=tools).choices[0]
    (call,) = made.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("wake", {"time": "nine"})
    assert (made.finish_reason, made.message.content) == ("tool_calls", None)
    *pieces, last = chat(client, form, tools=tools, stream=True)
    assert not any(piece.choices[0].delta.content for piece in [*pieces, last])
    (call,) = last.choices[0].delta.tool_calls
    assert (call.index, call.function.name) == (0, "wake")
    assert last.choices[0].finish_reason == "tool_calls"
    without = chat(client, form, tools=tools, tool_choice="none").choices[0]
    assert (without.message.content, without.finish_reason) == (CALL, "stop")

    sizes = []
    for choice in ("auto", "none"):
        made = chat(client, tools=tools, tool_choice=choice, max_tokens=1)
        sizes.append(made.usage.prompt_tokens)
    prompts = [
        plain[1].apply_chat_template(
            [{"role": "user", "content": "wake me up"}],
            tools=some,
            add_generation_prompt=True,
            return_dict=False,
        )
        for some in (tools, None)
    ]
    assert sizes == [len(prompt) for prompt in prompts]


def test_an_answer_that_called_a_tool_can_be_sent_back(client):
    messages = [{"role": "user", "content": "wake me up"}]
    made = chat(client, structured(choice=[CALL]), tools=[WAKE]).choices[0].message
    messages += [made, {"role": "tool", "tool_call_id": made.tool_calls[0].id, "content": "done"}]
    assert chat(client, tools=[WAKE], messages=messages, max_tokens=3).choices


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": [WAKE], "tool_choice": "required"}, "no output is forced"),
        (
            {"tools": [WAKE], "tool_choice": {"type": "function", "function": {"name": "wake"}}},
            "no output is forced",
        ),
        ({"tool_choice": "auto"}, "only with tools"),
        ({"messages": [{"role": "assistant"}]}, "the message has none"),
    ],
)
def test_tools_that_cannot_be_had_are_refused(client, options, message):
    with pytest.raises(openai.BadRequestError, match=message):
        chat(client, **options)


@pytest.mark.parametrize(
    ("text", "before", "calls"),
    [
        ("plain text", "plain text", []),
        (CALL, "", ["wake"]),
        (f"I do.\n{CALL}\n{CALL}", "I do.", ["wake", "wake"]),
        ('<tool_call>[{"name": "wake", "arguments": {}}]</tool_call>', "", ["wake"]),
        ('[TOOL_CALLS] [{"name": "wake", "arguments": {}}]', "", ["wake"]),
        ('{"name": "wake", "parameters": {"time": "nine"}}', "", ["wake"]),
        ('<|python_tag|>{"name": "wake", "parameters": {}}', "", ["wake"]),
        ('{"name": "other", "parameters": {}}', '{"name": "other", "parameters": {}}', []),
        ("{1", "{1", []),
        (f"{CALL} and more", f"{CALL} and more", []),
        ("a <tool_call>{", "a <tool_call>{", []),
        ("a < b", "a < b", []),
    ],
)
def test_calls_are_found_in_texts_whole_and_in_pieces(text, before, calls):
    found, own = calls_in(text, ["wake"])
    assert (found, [call.name for call in own]) == (before, calls)
    for size in (1, 3, 100):
        stream = CallStream(["wake"])
        pieces = [stream.add(text[i : i + size]) for i in range(0, len(text), size)]
        rest, streamed = stream.end()
        assert "".join(pieces) + rest == before
        assert [call.name for call in streamed] == calls


def test_greedy_chats_are_those_of_transformers_after_a_long_prompt(client, plain):
    """Longer than what is read between two steps."""
    text = " ".join(TEXTS * 2)
    ids = plain[1](text)["input_ids"]
    assert len(ids) > 256
    expected = continued(plain[0], np.array(ids), 8).tolist()
    for _ in range(3):
        made = complete(client, {"return_token_ids": True}, prompt=text, max_tokens=8)
        assert made.choices[0].token_ids == expected
