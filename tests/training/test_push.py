"""A model goes to the Hub when that is asked, whole and alone; the Hub is a stand-in."""

import pytest

from tasc.files.disk import files_below
from tasc.models.folder.push import push
from tests.cli import tasc
from tests.data.files import jsonl, write
from tests.pico import make_base
from tests.training.hub import Hub, hub_of

ROWS = [{"input": f"say {n}", "output": f"{n} times"} for n in range(3)]
LEARN = ("--quantize", "none", "--epochs", 1, "--batch-size", 3, "--effective-batch", 3)
TOKEN = "hf_of_a_test"
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the client's


@pytest.fixture
def hub(monkeypatch):
    with hub_of(Hub()) as running:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", running.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        yield running


@pytest.fixture
def training(tmp_path):
    task = write(tmp_path / "task.jsonl", jsonl(ROWS))
    base = make_base(tmp_path / "base")
    return ("finetune", task, "--model", base, *LEARN, "--output", tmp_path / "out")


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in files_below(folder)}


def test_the_model_is_pushed_whole_and_nothing_else(capsys, tmp_path, training, hub):
    code, out, err = tasc(capsys, *training, "--merge", "--push-to-hub", "me/tuned")
    assert code == 0, err
    assert f"pushed to the Hub: {hub.url}/me/tuned" in out
    assert TOKEN not in out + err
    assert hub.tokens == {f"Bearer {TOKEN}"}
    (asked,) = hub.created
    assert (asked["organization"], asked["name"]) == ("me", "tuned")
    assert asked["visibility"] == "private"
    assert hub.files == contents(tmp_path / "out" / "model")
    assert {"README.md", "model.safetensors", "tokenizer.json"} <= set(hub.files)


def test_what_links_lead_to_is_not_pushed(tmp_path, hub):
    write(tmp_path / "secret" / "key.json", b"1")
    model = tmp_path / "model"
    write(model / "config.json", b"{}")
    write(model / "deep" / "more.json", b"[]")
    (model / "link.json").symlink_to(tmp_path / "secret" / "key.json")
    (model / "folder").symlink_to(tmp_path / "secret")
    assert push(model, "me/tuned") == f"{hub.url}/me/tuned"
    assert hub.files == {"config.json": b"{}", "deep/more.json": b"[]"}


@pytest.mark.parametrize("refuses", ["repos/create", "preupload", "lfs", "commit"])
def test_a_push_that_fails_leaves_the_model_and_says_how_to_try_again(
    capsys, tmp_path, training, hub, refuses
):
    hub.refuses = refuses
    code, out, err = tasc(capsys, *training, "--merge", "--push-to-hub", "me/tuned")
    assert (code, out, hub.files) == (2, "", {})
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert TOKEN not in err
    assert "\x1b" not in err
    model = tmp_path / "out" / "model"
    assert err.endswith(f"push it with hf upload --private me/tuned {model} .\n")
    assert (tmp_path / "out" / "manifest.json").is_file()
    assert (model / "model.safetensors").is_file()


def test_nothing_is_asked_of_the_hub_unless_it_is_named(capsys, training, hub):
    assert tasc(capsys, *training, "--merge")[0] == 0
    assert hub.asked == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--push-to-hub", "me/tuned"), "add --merge"),
        (("--merge", "--push-to-hub", "a/b/c"), "give USER/NAME"),
        (("--merge", "--push-to-hub", ""), "give USER/NAME"),
        (("--draft-head", "--push-to-hub", "me/tuned"), "plain model"),
    ],
)
def test_what_cannot_be_pushed_is_refused_before_any_work(
    capsys, tmp_path, training, hub, given, said
):
    code, _, err = tasc(capsys, *training, *given)
    assert code == 2
    assert said in err
    assert hub.asked == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("lacks", ["token", "network"])
def test_without_token_or_network_nothing_is_trained(
    capsys, tmp_path, training, hub, monkeypatch, lacks
):
    if lacks == "token":
        monkeypatch.delenv("HF_TOKEN")
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    else:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    code, _, err = tasc(capsys, *training, "--merge", "--push-to-hub", "me/tuned")
    assert code == 2
    assert {"token": "set HF_TOKEN", "network": "HF_HUB_OFFLINE is set"}[lacks] in err
    assert not (tmp_path / "out").exists()


def test_no_recipe_can_push(capsys, tmp_path, hub):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "name: x\ndescription: y\ndata: {path: builtin:stdlib-tokens}\nsteps:\n"
        "  a: {command: finetune, model: m, merge: true, push_to_hub: me/tuned}\n"
    )
    code, _, err = tasc(capsys, "run", recipe, "--output", tmp_path / "out")
    assert code == 2
    assert "step a: push_to_hub: unknown key" in err
    assert hub.asked == []
