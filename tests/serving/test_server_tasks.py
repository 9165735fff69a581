"""Several tasks on one model of tasc serve, what they learn, and limits of time."""

import asyncio
import json
import signal
import stat

import numpy as np
import openai
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from tasc.decoding.drafters import parse
from tasc.decoding.drafters.ngram.index import build_index, save_index
from tasc.decoding.drafters.ngram.options import Counts
from tasc.decoding.drafters.none import Autoregressive
from tasc.errors import InputError
from tasc.serving.drafts.state import read_state
from tasc.serving.http.app import Server
from tasc.serving.http.model import ServedModel
from tasc.serving.http.tasks import Tasks
from tasc.serving.http.worker import Drafting
from tasc.serving.options import ServeOptions
from tasc.tokenizer.loaded import load_tokenizer
from tests.pico import TEXTS, continued
from tests.serving.served import (
    KEY,
    NAME,
    SECONDS,
    exchange,
    make_folder,
    read,
    started,
    status_of,
)

PROMPT = TEXTS[0].split("\n")[0]
TOKENS = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def expected(folder):
    """The greedy output of transformers."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    ids = AutoTokenizer.from_pretrained(folder)(PROMPT)["input_ids"]
    return continued(model, np.array(ids), TOKENS).tolist()


@pytest.fixture(scope="module")
def tasks(folder, expected):
    """``known`` drafts the output; the others have a form, and ``both`` has both."""
    tasks, tokenizer = folder.parent / "tasks", load_tokenizer(str(folder))
    for name in ("known", "both"):
        (tasks / name).mkdir(parents=True)
        outputs = [np.array(expected, np.int32)] * 3
        save_index(build_index(outputs, tokenizer.eos_id, Counts()), tokenizer, tasks / name)
    (tasks / "both.labels").write_text("yes\n")
    (tasks / "regex.regex").write_text("(no){2}\n")
    return tasks


def complete(client, model, more=None, **options):
    asked = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0} | options
    return client.completions.create(model=model, **asked, extra_body=more or {})


def asked(url, method, path, key=KEY):
    return read(url, path, key=key, method=method)


def test_tasks_are_models_that_come_and_go_and_keep_what_they_learn(folder, tasks, expected):
    state = folder.parent / "learnt.safetensors"
    options = ("--tasks", tasks, "--state", state, "--max-length", 400, "--timeout", 500)
    with (
        started(folder, *options) as (url, process),
        openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client,
    ):
        assert [model.id for model in client.models.list()] == [NAME, "both", "known", "regex"]
        made = complete(client, "known", {"return_token_ids": True})
        assert made.choices[0].token_ids == expected
        assert made.model == "known"
        assert made.usage.drafted_tokens >= made.usage.accepted_tokens
        off = complete(client, "known", {"return_token_ids": True, "drafting": False})
        assert off.choices[0].token_ids == expected
        assert off.usage.drafted_tokens == 0
        assert complete(client, "both").choices[0].text == "yes"
        assert complete(client, "regex").choices[0].text == "nono"
        own = {"structured_outputs": {"choice": ["own"]}}
        assert complete(client, "regex", own).choices[0].text == "own"

        (tasks / "new.labels").write_text("new\n")
        assert json.loads(asked(url, "PUT", "/v1/tasks/new"))["id"] == "new"
        assert complete(client, "new").choices[0].text == "new"
        (tasks / "new.labels").write_text("newer\n")
        asked(url, "PUT", "/v1/tasks/new")
        assert complete(client, "new").choices[0].text == "newer"
        assert json.loads(asked(url, "DELETE", "/v1/tasks/new"))["deleted"]
        with pytest.raises(openai.NotFoundError, match="there is no model 'new'"):
            complete(client, "new")
        for method, name in (("DELETE", "new"), ("DELETE", NAME), ("PUT", "none"), ("PUT", ".a")):
            assert status_of(url, f"/v1/tasks/{name}", method=method)[0] == 400
        assert status_of(url, "/v1/tasks/known", key="wrong", method="PUT")[0] == 401

        outputs = json.loads(asked(url, "POST", "/v1/state"))["outputs"]
        assert outputs >= 3  # of the tasks with a form, whose outputs end
        assert stat.S_IMODE(state.stat().st_mode) == 0o600
        learnt = read_state(state, load_tokenizer(str(folder)))
        assert {*learnt} == {"", "known", "both", "regex"}
        assert sum(map(len, learnt.values())) == outputs
        complete(client, "regex")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        assert "of keys and values (8 outputs of 400 tokens)" in process.stderr.read()
    again = read_state(state, load_tokenizer(str(folder)))
    assert len(again["regex"]) == len(learnt["regex"]) + 1
    model = ServedModel(ServeOptions(folder=str(folder), tasks=str(tasks), state=str(state)))
    assert [o.tolist() for o in model.tasks["regex"].learnt] == [o.tolist() for o in again["regex"]]


def drafts_nothing(_folders):
    return Drafting(parse("ar"), Autoregressive)


def test_tasks_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        Tasks(NAME, drafts_nothing, [], tmp_path / "none")
    (tmp_path / "a.regex").write_text("x")
    (tmp_path / "a.labels").write_text("x")
    with pytest.raises(InputError, match=r"has \.regex and \.labels: leave one"):
        Tasks(NAME, drafts_nothing, [], tmp_path)
    (tmp_path / "a.regex").rename(tmp_path / f"{NAME}.regex")
    with pytest.raises(InputError, match="cannot be the name"):
        Tasks(NAME, drafts_nothing, [], tmp_path)


async def _answer(app, method, path, body=b""):
    """Send a request to an application; return the status and the body."""
    start, *parts = await exchange(app, method, path, body)
    return start["status"], b"".join(part.get("body", b"") for part in parts)


def test_a_request_may_take_so_long_and_tasks_need_a_key(folder):
    """The worker of this server is not started, so that nothing ends by itself."""
    model = ServedModel(ServeOptions(folder=str(folder), dtype="float32"))
    app = Server(model, None, seconds=0.01).app
    for stream in (False, True):
        body = json.dumps({"model": model.name, "prompt": "a", "stream": stream}).encode()
        status, said = asyncio.run(_answer(app, "POST", "/v1/completions", body))
        assert status == (200 if stream else 408)
        assert b"the request took more than 0.01 s" in said
    while not model.worker.commands.empty():
        model.worker.commands.get()()
    assert model.worker.admitted == 0
    for method, path in (("PUT", "/v1/tasks/a"), ("DELETE", "/v1/tasks/a"), ("POST", "/v1/state")):
        assert asyncio.run(_answer(app, method, path))[0] == 403
