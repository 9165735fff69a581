from pathlib import Path

import pytest

from tasc.errors import InputError
from tasc.files.artefact import Step, create
from tasc.options.references import expand_user, join, parse_label, parse_path, resolve_model
from tasc.tokenizer.loaded import load_tokenizer
from tests.pico import make_tokenizer


def artefact(output: Path, *files: str) -> Path:
    with create(output, Step("finetune", {}, {}), force=False) as workspace:
        for name in files:
            (workspace.folder / name).parent.mkdir(exist_ok=True)
            (workspace.folder / name).write_text("{}")
    return output


def test_a_label_has_no_slash_and_what_exists_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=0.1").mkdir()
    assert parse_label("base=some/model") == ("base", "some/model")
    assert parse_label("base=runs/lr=0.1") == ("base", "runs/lr=0.1")
    for path in ("some/model", "runs/lr=0.1/model", "lr=0.1", str(tmp_path / "lr=0.1")):
        assert parse_label(path) == ("", path)
        assert join(*parse_label(path)) == path
    assert join(*parse_label("base=some/model")) == "base=some/model"
    assert parse_label("base=") == ("base", "")
    with pytest.raises(InputError, match="'base=' has no path"):
        parse_path("base=")


def test_home_is_written_out_behind_a_label_too(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expand_user("~/m") == f"{tmp_path}/m"
    assert expand_user("base=~/m") == f"base={tmp_path}/m"
    assert expand_user("./m~") == "./m~"
    with pytest.raises(InputError, match="~nobody-of-this-name/m: no such home folder"):
        expand_user("~nobody-of-this-name/m")


def test_a_model_is_found_inside_an_artefact(tmp_path):
    merged = artefact(tmp_path / "merged", "model/config.json", "adapter/a")
    assert resolve_model(str(merged)) == ("merged", str(merged / "model"))
    assert resolve_model(f"ft={merged}") == ("ft", str(merged / "model"))
    with pytest.raises(InputError, match="run tasc finetune with --merge"):
        resolve_model(str(artefact(tmp_path / "adapter-only", "adapter/a")))
    with pytest.raises(InputError, match="contains no model: tasc finetune wrote it"):
        resolve_model(str(artefact(tmp_path / "nothing", "training.json")))


@pytest.mark.parametrize("part", ["model", "adapter"])
def test_a_tokenizer_is_found_inside_what_finetune_wrote(tmp_path, part):
    made = make_tokenizer(tmp_path / "out" / part)
    assert load_tokenizer(str(made.parent)).vocabulary() == load_tokenizer(str(made)).vocabulary()
