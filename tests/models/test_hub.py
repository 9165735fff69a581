"""What is taken from the Hub: JSON and safetensors, and shards only under plain names."""

import fnmatch

import huggingface_hub
import pytest

from tasc.errors import InputError
from tasc.models.load import load_model
from tests import pico
from tests.models.strangers import indexed


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A Hub of one model, and the patterns it was asked for."""
    folder, asked = tmp_path / "models--a--b" / "snapshots" / "0123", []

    def snapshot_download(name, *, allow_patterns, revision=None):
        asked.extend(allow_patterns)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return folder, asked


def test_nothing_but_json_and_safetensors_is_asked_for(hub):
    folder, asked = hub
    model = load_model(str(pico.make_model(folder)))
    again = load_model("a/b")
    assert {name.rpartition(".")[2] for name in asked} == {"json", "safetensors"}
    harmful = ("pytorch_model.bin", "modeling.py", "custom_generate/generate.py", "x/a.safetensors")
    assert not any(fnmatch.fnmatch(name, pattern) for name in harmful for pattern in asked)
    assert again.num_parameters() == model.num_parameters()
    assert again.config._name_or_path == "a/b"


def test_shards_of_the_hub_are_fetched_by_their_plain_names(hub, tmp_path):
    folder, asked = hub
    pico.build_model().save_pretrained(folder, max_shard_size="100KB")
    load_model("a/b")
    shards = {p.name for p in folder.glob("*.safetensors")}
    assert shards <= set(asked)


@pytest.mark.parametrize("name", ["x.bin", "../x.safetensors", "*.safetensors"])
def test_an_index_on_the_hub_cannot_ask_for_anything_else(hub, tmp_path, name):
    folder, asked = hub
    indexed(pico.make_model(tmp_path / "base"), folder, name)
    with pytest.raises(InputError, match="only safetensors"):
        load_model("a/b")
    assert name not in asked
