"""Clients that others wrote, against tasc serve: litellm, LangChain and curl."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import openai
import pytest

from tests.serving.served import KEY, NAME, make_folder, started
from tests.trees import ROOT

PYTHON = Path(os.environ.get("TASC_CLIENTS_PYTHON", ROOT / "build/clients-venv/bin/python"))
CALLS = Path(__file__).with_name("client_calls.py")
MESSAGES = [{"role": "user", "content": "wake me up"}]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with started(make_folder(tmp_path_factory.mktemp("clients")), "--max-length", 500) as (url, _):
        yield f"{url}/v1"


@pytest.fixture(scope="module")
def expected(url):
    """What the client of OpenAI gets."""
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        own = {"model": NAME, "temperature": 0, "max_tokens": 12}
        chat = client.chat.completions.create(messages=MESSAGES, **own)
        text = client.completions.create(prompt="wake", **own)
    return chat, text.choices[0].text


@pytest.mark.serving
@pytest.mark.skipif(not PYTHON.exists(), reason="no clients: see make test-clients")
@pytest.mark.parametrize("client", ["litellm", "langchain"])
def test_a_client_gets_what_the_client_of_openai_gets(url, expected, client):
    ran = subprocess.run(
        [PYTHON, CALLS, client, url, KEY, NAME],
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # else it looks on the web
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    chat, text = expected
    assert found["whole"] == found["streamed"] == chat.choices[0].message.content
    assert found["tokens"] == found["logprobs"] == chat.usage.completion_tokens
    assert found["text"] == text
    assert found["form"] == '"b"'
    assert found["tools"] > chat.usage.prompt_tokens
    assert "logit_bias is not supported" in found["refused"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_curl_prints_a_stream(url, expected):
    asked = {"model": NAME, "messages": MESSAGES, "temperature": 0, "max_tokens": 12}
    asked |= {"stream": True}
    command = ["curl", "-sN", f"{url}/chat/completions", "-H", f"Authorization: Bearer {KEY}"]
    command += ["-H", "Content-Type: application/json", "-d", json.dumps(asked)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    *lines, done = [line for line in printed.stdout.split("\n\n") if line]
    pieces = [json.loads(line.removeprefix("data: ")) for line in lines]
    text = "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces)
    assert text == expected[0].choices[0].message.content
    assert done == "data: [DONE]"
