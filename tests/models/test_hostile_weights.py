"""Weights that lie elsewhere, are no safetensors, are damaged, or are of another model."""

import fnmatch
import shlex
import shutil
import subprocess
import sys

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file

from tasc.errors import InputError, IntegrityError
from tasc.models.load import load_model
from tests import pico
from tests.models.strangers import bomb, copied, headed, indexed

UP = "model.layers.0.mlp.up_proj.weight"
F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def with_weights(base, folder, change):
    copied(base, folder)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_weights_that_are_not_safetensors_are_refused_and_not_loaded(base, tmp_path):
    folder = copied(base, tmp_path / "model")
    (folder / "model.safetensors").unlink()
    bomb(folder / "pytorch_model.bin", tmp_path / "ran")
    with pytest.raises(InputError, match="no safetensors"):
        load_model(str(folder))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name",
    [
        *("part.bin", "../part.bin", "{tmp}/part.bin", "part.pt", "../part.safetensors"),
        *("{tmp}/part.safetensors", "a/part.safetensors", "*.safetensors"),
    ],
)
def test_an_index_that_names_a_pickle_or_files_elsewhere_is_refused(base, tmp_path, name):
    folder = indexed(base, tmp_path / "model", name.format(tmp=tmp_path))
    for pickle in (folder / "part.bin", folder / "part.pt", tmp_path / "part.bin"):
        bomb(pickle, tmp_path / "ran")
    shutil.copy(base / "model.safetensors", tmp_path / "part.safetensors")
    with pytest.raises(InputError, match=r"only safetensors files in the folder itself"):
        load_model(str(folder))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("index", ["{}", "[]", '{"weight_map": 3}', '{"weight_map": {}}', "\xff"])
def test_an_index_that_names_nothing_is_refused(base, tmp_path, index):
    folder = indexed(base, tmp_path / "model", "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(index, encoding="latin-1")
    with pytest.raises(InputError, match=r"index\.json"):
        load_model(str(folder))


def test_a_missing_shard_is_named(base, tmp_path):
    with pytest.raises(InputError, match=r"gone\.safetensors is missing"):
        load_model(str(indexed(base, tmp_path / "model", "gone.safetensors")))


def test_a_sharded_model_loads(tmp_path):
    model = pico.build_model()
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    loaded = load_model(str(tmp_path)).state_dict()
    torch.testing.assert_close(loaded, model.state_dict(), rtol=0, atol=0)


def test_shards_without_an_index_are_told_with_a_remedy_that_works(tmp_path):
    model = pico.build_model()
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    (tmp_path / "model.safetensors.index.json").unlink()
    with pytest.raises(InputError, match=r"no model\.safetensors\.index\.json") as caught:
        load_model(str(tmp_path))
    command = str(caught.value).partition("write it in the model's folder: ")[2]
    program = shlex.split(command)
    assert program[:2] == ["python", "-c"]
    subprocess.run([sys.executable, *program[1:]], cwd=tmp_path, check=True)
    loaded = load_model(str(tmp_path)).state_dict()
    torch.testing.assert_close(loaded, model.state_dict(), rtol=0, atol=0)


def test_shards_that_are_missing_or_alone_are_told(tmp_path):
    pico.build_model().save_pretrained(tmp_path, max_shard_size="100KB")
    (tmp_path / "model.safetensors.index.json").unlink()
    shards = sorted(tmp_path.glob("*.safetensors"))
    shards[1].unlink()
    with pytest.raises(InputError, match=r"numbers 2 are missing.*: download them again"):
        load_model(str(tmp_path))
    for shard in shards[2:]:
        shard.unlink()
    shards[0].rename(tmp_path / "model-00001-of-00001.safetensors")
    with pytest.raises(InputError, match=r"rename it to model\.safetensors"):
        load_model(str(tmp_path))


def test_weights_linked_from_elsewhere_are_refused(base, tmp_path):
    folder = copied(base, tmp_path / "model")
    (folder / "model.safetensors").rename(tmp_path / "model.safetensors")
    (folder / "model.safetensors").symlink_to(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"outside the folder.*replace the link by a copy"):
        load_model(str(folder))


def test_a_snapshot_in_the_hubs_cache_links_to_its_own_blobs(base, tmp_path):
    repository = tmp_path / "models--somebody--something"
    folder = copied(base, repository / "snapshots" / "0123abc")
    (repository / "blobs").mkdir()
    for number, name in enumerate(("model.safetensors", "config.json")):
        (folder / name).rename(repository / "blobs" / str(number))
        (folder / name).symlink_to(f"../../blobs/{number}")
    assert load_model(str(folder)).num_parameters() > 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        headed({}, length=2**63),
        headed({}, length=2**31),
        headed({}),
        headed([]),
        headed({"a": F32}),  # as of a file that is cut
        headed({"a": F32, "b": F32}, b"12345678"),
        headed({"a": F32 | {"shape": [2**40, 2**40]}}, b"12345678"),
        headed({"a": F32 | {"shape": [-2]}}, b"12345678"),
        headed({"a": F32 | {"dtype": "OBJECT"}}, b"12345678"),
        headed({"a": F32 | {"data_offsets": [8, 0]}}, b"12345678"),
        headed({"a" * 5: {"x": [[[]]]}}),
    ],
)
def test_a_damaged_header_is_an_integrity_error(base, tmp_path, content):
    folder = copied(base, tmp_path / "model")
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(IntegrityError, match=r"damaged weights: model\.safetensors|no tensors"):
        load_model(str(folder))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors: tensors.pop(UP), "up_proj"),
        (
            lambda tensors: tensors.update({UP: torch.zeros(3, 5)}),
            r"up_proj\.weight is \(3, 5\) in the weights and",
        ),
        (lambda tensors: tensors["model.norm.weight"].fill_(torch.nan), "logits are NaN"),
    ],
    ids=["missing", "another shape", "no numbers"],
)
def test_weights_that_make_no_model_are_named(base, tmp_path, change, said):
    with pytest.raises(IntegrityError, match=said):
        load_model(str(with_weights(base, tmp_path / "model", change)))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_weights_of_another_kind_of_number_become_floats(base, tmp_path, dtype):
    folder = with_weights(base, tmp_path / "m", lambda t: t.update({UP: t[UP].to(dtype)}))
    assert load_model(str(folder)).get_parameter(UP).is_floating_point()


def test_tensors_too_many_are_passed_over_as_transformers_does(base, tmp_path):
    folder = with_weights(base, tmp_path / "m", lambda t: t.update({"more": torch.zeros(3)}))
    assert load_model(str(folder)).num_parameters() > 0


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A Hub of one model, and the file patterns of each request."""
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
