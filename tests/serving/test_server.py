"""tasc serve of a model: the clients' own library against a real process, with a tiny model."""

import asyncio
import json
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import openai
import pytest
from tasc_cli._typed import typed
from transformers import AutoModelForCausalLM, AutoTokenizer

from tasc.serving.http.app import Server
from tasc.serving.http.model import ServedModel
from tasc.serving.options import ServeOptions
from tests.cli import refused
from tests.pico import TEXTS, continued
from tests.serving.served import (
    KEY,
    NAME,
    SECONDS,
    exchange,
    free_port,
    make_folder,
    read,
    started,
    status_of,
    value_of,
    wait_until,
)
from tests.trees import ROOT

PROMPTS = [f"{text.split(chr(10))[0]} {more}" for text in TEXTS for more in ("", "now", "at ten")]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "boolean"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def plain(folder):
    """The model and the tokenizer of transformers."""
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def url(folder):
    """The server; when it is stopped, it finishes what runs and exits with 0."""
    options = ("--batch-size", 3, "--queue", 40, "--max-length", 500, "--grace", SECONDS)
    with started(folder, *options) as (url, process):
        yield url
        asked = {"model": NAME, "prompt": PROMPTS[0], "max_tokens": 480, "temperature": 0}
        asked |= {"drafting": False, "return_token_ids": True}
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(read, url, "/v1/completions", json.dumps(asked).encode())
            wait_until(lambda: done.done() or value_of(url, "tasc_running") > 0)
            process.send_signal(signal.SIGTERM)
            assert json.loads(done.result())["choices"][0]["token_ids"]
        assert process.wait(SECONDS) == 0
        assert f"serving {NAME} at {url}/v1" in process.stderr.read()


@pytest.fixture(scope="module")
def client(url):
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def began(url, ended):
    """Return whether an output runs, or one has ended since ``ended`` tokens were counted."""
    return value_of(url, "tasc_running") > 0 or value_of(url, "tasc_tokens_total") > ended


def complete(client, prompt, **options):
    more = {"return_token_ids": True} if not options.get("stream") else {}
    more |= options.pop("more", {})
    given = {"max_tokens": 24, "temperature": 0} | options
    return client.completions.create(model=NAME, prompt=prompt, extra_body=more, **given)


def greedy(plain, prompt, tokens=24):
    model, tokenizer = plain
    return continued(model, np.array(tokenizer(prompt)["input_ids"]), tokens).tolist()


def test_greedy_ids_are_those_of_transformers_in_any_order_and_company(client, plain):
    asked = [(i, drafting) for i in range(len(PROMPTS)) for drafting in (True, False)]
    Random(3).shuffle(asked)
    expected = [greedy(plain, prompt) for prompt in PROMPTS]

    def ids(i, drafting):
        made = complete(client, PROMPTS[i], more={"drafting": drafting, "return_token_ids": True})
        assert made.usage.completion_tokens == len(made.choices[0].token_ids)
        if not drafting:
            assert (made.usage.drafted_tokens, made.usage.accepted_tokens) == (0, 0)
        assert made.usage.accepted_tokens <= made.usage.drafted_tokens
        return made.choices[0].token_ids

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: ids(*one), asked))
    assert found == [expected[i] for i, _ in asked]


def test_several_prompts_of_texts_and_ids_are_answered_in_their_order(client, plain):
    ids = [plain[1](prompt)["input_ids"] for prompt in PROMPTS[:3]]
    expected = [greedy(plain, prompt) for prompt in PROMPTS[:3]]
    for prompts in (PROMPTS[:3], ids):
        made = complete(client, prompts, n=2)
        assert [c.token_ids for c in made.choices] == [e for e in expected for _ in range(2)]
        assert [c.index for c in made.choices] == list(range(6))
    assert complete(client, ids[1]).choices[0].token_ids == expected[1]


def test_a_chat_is_written_by_the_template_and_streams_the_same_text(client, plain):
    model, tokenizer = plain
    messages = [{"role": "user", "content": "wake me up"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    expected = continued(model, np.array(prompt), 20)
    options = {"model": NAME, "messages": messages, "temperature": 0, "max_completion_tokens": 20}
    made = client.chat.completions.create(**options)
    assert made.choices[0].message.content == tokenizer.decode(expected, skip_special_tokens=True)
    assert made.usage.prompt_tokens == len(prompt)
    parts = [{"type": "text", "text": "wake "}, {"type": "text", "text": "me up"}]
    again = options | {"messages": [{"role": "user", "content": parts}]}
    streamed = client.chat.completions.create(
        **again, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(streamed)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == made.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == made.choices[0].finish_reason
    assert not last.choices
    assert last.usage.completion_tokens == made.usage.completion_tokens


def test_a_stop_string_ends_the_text_whole_and_streamed(client):
    whole = complete(client, PROMPTS[0]).choices[0].text
    stop = next(whole[i : i + 2] for i in range(4, len(whole)) if whole[i : i + 2].isascii())
    made = complete(client, PROMPTS[0], stop=[stop, "never written"])
    assert made.choices[0].text == whole[: whole.index(stop)]
    assert made.choices[0].finish_reason == "stop"
    pieces = list(complete(client, PROMPTS[0], stop=stop, stream=True))
    assert "".join(piece.choices[0].text for piece in pieces) == made.choices[0].text
    assert pieces[-1].choices[0].finish_reason == "stop"


def test_sampled_outputs_depend_on_the_seed_alone(client):
    options = {"temperature": 1.5, "top_p": 0.9, "seed": 7, "n": 3}
    first, second = (complete(client, PROMPTS[1], **options) for _ in range(2))
    assert [c.token_ids for c in first.choices] == [c.token_ids for c in second.choices]
    plain = complete(
        client, PROMPTS[1], **options, more={"drafting": False, "return_token_ids": True}
    )
    assert [c.token_ids for c in plain.choices] == [c.token_ids for c in first.choices]


def test_outputs_satisfy_a_schema(client):
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
    messages = [{"role": "user", "content": "go"}]
    made = client.chat.completions.create(
        model=NAME, messages=messages, max_tokens=200, temperature=0, response_format=form
    )
    answer = json.loads(made.choices[0].message.content)
    assert answer["a"] in ("x", "y")
    assert isinstance(answer["b"], bool)


REFUSED = [
    ({"logprobs": True}, 400, "logprobs"),
    ({"logprobs": 21}, 400, "logprobs"),
    ({"echo": True}, 400, "echo is not supported"),
    ({"logit_bias": {"1": 5}}, 400, "logit_bias is not supported"),
    ({"frequency_penalty": 3}, 400, "frequency_penalty"),
    ({"repetition_penalty": 0}, 400, "repetition_penalty"),
    ({"tools": [{}]}, 400, "tools: unknown key"),
    ({"guided_regex": "a"}, 400, 'give structured_outputs with the key "regex"'),
    ({"structured_outputs": {}}, 400, "got 0 of json"),
    ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, 400, "got 2 of json"),
    ({"structured_outputs": {"regex": "("}}, 400, "structured_outputs"),
    ({"structured_outputs": {"grammar": "x ::= ("}}, 400, "structured_outputs"),
    ({"structured_outputs": {"structural_tag": "a"}}, 400, "structural_tag"),
    (
        {"structured_outputs": {"regex": "a"}, "response_format": {"type": "text"}},
        400,
        "give one of them",
    ),
    ({"unheard_of": 1}, 400, "unheard_of: unknown key"),
    ({"temperature": -1}, 400, "temperature"),
    ({"temperature": "hot"}, 400, "temperature"),
    ({"top_p": 0}, 400, "top_p"),
    ({"n": 0}, 400, "n: "),
    ({"max_tokens": 0}, 400, "max_tokens"),
    ({"max_tokens": 500}, 400, "exceed the 500 tokens"),
    ({"prompt": []}, 400, "prompt"),
    ({"prompt": [1, 320]}, 400, "token id 320"),
    ({"prompt": [2**40]}, 400, "too large"),
    ({"prompt": "\ud800"}, 400, "prompt"),
    ({"prompt": ""}, 400, "give a text or ids"),
    ({"prompt": [1] * 2000}, 400, "exceed the 500 tokens"),
    ({"temperature": 1e-31}, 400, "must be 0, or from 1e-30"),
    ({"stop": [""]}, 400, "stop"),
    ({"stop": "\ud800"}, 400, "half of a surrogate pair"),
    ({"stop": "\ud800", "stream": True}, 400, "half of a surrogate pair"),
    ({"stream_options": {"include_usage": True}}, 400, "only with stream"),
    ({"response_format": {"type": "json_schema"}}, 400, "json_schema"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 3}}}},
        400,
        "response_format",
    ),
    ({"model": "another"}, 404, "this server has 'tiny'"),
    ({"n": 32, "prompt": ["a", "b"]}, 400, "43 outputs at most"),
]


@pytest.mark.parametrize(("wrong", "status", "message"), REFUSED)
def test_what_is_not_supported_or_wrong_is_refused_in_the_form_of_the_api(
    url, wrong, status, message
):
    asked = {"model": NAME, "prompt": "a", "max_tokens": 2} | wrong
    found, error, _ = status_of(url, "/v1/completions", json.dumps(asked).encode())
    assert found == status
    assert message in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


async def _asked(app, body, *, leaves=None):
    """Send a completion to an application; return the status, the headers and the body."""
    data = json.dumps(body).encode()
    start, *parts = await exchange(app, "POST", "/v1/completions", data, leaves=leaves)
    return start["status"], dict(start["headers"]), json.loads(parts[0].get("body") or "{}")


def test_a_full_queue_refuses_more_until_a_client_goes_away(folder):
    """The worker of this server is not started, so that nothing ends by itself."""
    options = ServeOptions(folder=str(folder), dtype="float32", batch_size=1, queue=2)
    model = ServedModel(options)
    app, body = Server(model, None).app, {"model": "model", "prompt": "a", "n": 2}

    async def run():
        leaves = asyncio.Event()
        first = asyncio.create_task(_asked(app, body, leaves=leaves))
        while model.worker.admitted < 2:
            await asyncio.sleep(0.01)
        status, headers, said = await _asked(app, body)
        assert (status, headers[b"retry-after"]) == (429, b"1")
        assert said["error"]["code"] == "queue_full"
        assert model.worker.admitted == 2
        leaves.set()
        assert (await first)[0] == 499

    asyncio.run(run())
    while not model.worker.commands.empty():
        model.worker.commands.get()()
    assert model.worker.admitted == 0
    assert not model.worker.engine.busy


def test_a_stream_that_is_cut_by_the_end_of_the_server_ends_with_an_error(folder):
    options = ServeOptions(folder=str(folder), dtype="float32", batch_size=1)
    model = ServedModel(options)  # its worker is not started, so that nothing ends by itself
    app, sent = Server(model, None).app, list[dict[str, Any]]()
    data = json.dumps({"model": "model", "prompt": "a", "stream": True}).encode()

    async def run():
        answering = exchange(app, "POST", "/v1/completions", data, sent=sent)
        stream = asyncio.create_task(answering)
        while not model.worker.admitted:
            await asyncio.sleep(0.01)
        stream.cancel()
        await stream

    asyncio.run(run())
    head, error, done, last = sent
    assert head["status"] == 200
    assert json.loads(error["body"].removeprefix(b"data: "))["error"]["code"] == "stopped"
    assert done["body"] == b"data: [DONE]\n\n"
    assert not last["more_body"]


def test_broken_large_and_unknown_requests_are_refused(url, client):
    assert status_of(url, "/v1/completions", b"{")[:1] == (400,)
    assert status_of(url, "/v1/completions", b"[1]")[:1] == (400,)
    assert status_of(url, "/v1/completions", b" " * (4 << 20) + b"{}")[:1] == (413,)
    assert status_of(url, "/v1/embeddings", b"{}")[:1] == (404,)
    assert status_of(url, "/v1/completions")[:1] == (405,)
    assert status_of(url, "/v1/models", key="wrong")[:1] == (401,)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    assert [model.id for model in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).id == NAME
    with pytest.raises(openai.NotFoundError, match="there is no model 'other/model'"):
        client.models.retrieve("other/model")


def test_a_client_that_goes_away_frees_its_place(url, client):
    ended = value_of(url, "tasc_tokens_total")
    for stream in (True, False):
        body = {"model": NAME, "prompt": "a", "max_tokens": 490, "temperature": 0, "n": 30}
        data = json.dumps(body | {"stream": stream}).encode()
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n"
            connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            wait_until(lambda: began(url, ended))
        wait_until(lambda: value_of(url, "tasc_running") + value_of(url, "tasc_waiting") == 0)
    assert value_of(url, "tasc_tokens_total") < ended + 2 * 30 * 490
    assert complete(client, PROMPTS[0]).choices


def test_metrics_count_what_was_decoded(url, client):
    before = {n: value_of(url, n) for n in ("tasc_tokens_total", "tasc_forwards_total")}
    made = complete(client, PROMPTS[2])
    assert value_of(url, "tasc_tokens_total") == (
        before["tasc_tokens_total"] + made.usage.completion_tokens
    )
    assert value_of(url, "tasc_forwards_total") > before["tasc_forwards_total"]
    assert value_of(url, "tasc_first_token_seconds_count") > 0


def test_what_the_client_of_tasc_load_sends_is_understood(client):
    more = {"add_special_tokens": False, "skip_special_tokens": False}
    assert complete(client, PROMPTS[0], more=more).choices[0].text


def test_wrong_options_are_refused_before_anything_is_loaded(tmp_path, capsys, folder):
    said = [
        (("--method", "eagle"), "needs more than a model"),
        (("--method", "nothing"), "unknown method"),
        (("--batch-size", "0"), "batch_size"),
        (("--queue", "-1"), "queue"),
    ]
    for options, message in said:
        assert message in refused(capsys, "serve", folder, *options)
    assert "no such" in refused(capsys, "serve", tmp_path / "nowhere", "--port", free_port())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "cannot listen" in refused(capsys, "serve", folder, "--port", port)


@pytest.mark.parametrize("name", ["Dockerfile", "tasc.service"])
def test_the_examples_use_options_that_there_are(name):
    text = (ROOT / "examples" / "serve" / name).read_text()
    lines = re.findall(r"^(?:ExecStart=|ENTRYPOINT |CMD ).*", text, re.M)
    used = {option for line in lines for option in re.findall(r"--([a-z-]+)", line)}
    assert used
    assert used <= {field.option for field in typed(ServeOptions)}
