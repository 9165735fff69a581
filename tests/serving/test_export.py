"""Exports: a folder appears whole or not at all, and engines load what is in it."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import tasc
from tasc.decoding.drafters.ngram.index import indexed_outputs, load_index
from tasc.errors import InputError, TascError
from tasc.models.cost_model import CostModel
from tasc.models.draft_head import new_head
from tasc.models.load import load_model
from tasc.report.markdown import block, code
from tasc.serving.table import EXPORTS
from tests.cli import done
from tests.cli import tasc as run
from tests.models.strangers import bomb, copied
from tests.pico import TEXTS, make_base

PROMPTS = [text.split("\n")[0] for text in TEXTS]
OUTPUTS = [text.split("\n")[1] for text in TEXTS]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("model") / "base")


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    pairs = zip(PROMPTS, OUTPUTS, strict=True)
    rows = [json.dumps({"input": prompt, "output": output}) for prompt, output in pairs]
    (folder / "train.jsonl").write_text("\n".join(rows))
    return folder


def files(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("engine", EXPORTS)
def test_an_export_is_one_folder_with_its_own_readme(capsys, tmp_path, base, task, engine):
    if engine == "llama-cpp":
        pytest.importorskip("gguf", reason="the extra llama-cpp is not installed")
    out = tmp_path / "served"
    result = done(capsys, "export", base, "--to", engine, "--data", task, "--output", out)
    assert result["to"] == engine
    assert result["index"]["tokens"] > 0
    text = (out / "README.md").read_text()
    assert EXPORTS[engine].limits in text
    assert str(tmp_path) not in text
    assert {"README.md", "export.json", "manifest.json", "tokenizer.json"} <= files(out)
    if result["command"]:
        command = re.search(r"## Start\n.*?```sh\n(.*?)\n```", text, re.DOTALL)[1]
        assert shlex.split(command.replace("\\\n", " ")) == shlex.split(result["command"])
        assert "127.0.0.1" in result["command"]
    code, _, err = run(capsys, "export", base, "--to", engine, "--output", out)
    assert code == 2
    assert "already exists" in err


def test_the_readme_asks_as_the_task_does(tmp_path, base, task):
    """A prompt without the newline of the template is another prompt to the model."""
    for engine in ("vllm", "transformers"):
        options = {"model": str(base), "to": engine}
        for template, shown in [
            ("{input}\n", r"your input\n"),
            ("Q: {input}\nA:", r"Q: your input\nA:"),
        ]:
            out = tmp_path / f"{engine}-{len(template)}"
            out.mkdir()
            source = {"path": str(task), "template": template}
            tasc.export(tasc.ExportOptions(**options, source=source)).save(out)
            assert f'"{shown}"' in (out / "README.md").read_text()


def test_a_name_cannot_end_the_block_that_it_is_in():
    assert block("sh", "serve `a\n```\nb") == "````sh\nserve `a\n```\nb\n````"
    assert code("a```b") == "```` a```b ````"


def test_only_commands_stand_in_blocks_of_the_shell(tmp_path, base):
    pytest.importorskip("gguf", reason="the extra llama-cpp is not installed")
    for engine in EXPORTS:
        (tmp_path / engine).mkdir()
        tasc.export(tasc.ExportOptions(model=str(base), to=engine)).save(tmp_path / engine)
        text = (tmp_path / engine / "README.md").read_text()
        programs = {block.split()[0] for block in re.findall(r"```sh\n(.*?)\n```", text, re.DOTALL)}
        assert programs <= {"pip", "python", "curl", "llama-server"}


def test_what_is_refused_leaves_nothing(capsys, tmp_path, base):
    other = make_base(tmp_path / "other", hidden=32)
    (tmp_path / "not-an-index").mkdir()
    narrow, foreign = (tmp_path / name for name in ("narrow", "foreign"))
    new_head(AutoModelForCausalLM.from_pretrained(other)).save(narrow)
    new_head(AutoModelForCausalLM.from_pretrained(base)).save(foreign)
    stated = json.loads((foreign / "config.json").read_text())
    (foreign / "config.json").write_text(json.dumps(stated | {"vocab_size": 9999}))
    for arguments, told in [
        ((base, "--to", "vllm", "--index", tmp_path / "not-an-index"), "holds no index"),
        ((base, "--to", "vllm", "--head", other), "takes no draft head"),
        ((base, "--to", "transformers", "--head", narrow), "it belongs to another model"),
        ((base, "--to", "transformers", "--head", foreign), "was made for 9999 tokens"),
        ((base, "--to", "vllm", "--weights", "f16"), "weights has no effect on vllm"),
        ((tmp_path / "absent", "--to", "vllm"), "no such"),
        ((base, "--to", "tensorrt"), "vllm"),
    ]:
        code, _, err = run(capsys, "export", *arguments, "--output", tmp_path / "out")
        assert code == 2
        assert told in err
        assert not (tmp_path / "out").exists()


def test_the_index_is_the_one_given_or_counted_from_the_data(tmp_path, base, task):
    counted = tasc.index(tasc.IndexOptions(source=str(task), tokenizer=str(base)))
    (tmp_path / "index").mkdir()
    counted.save(tmp_path / "index")
    options = {"model": str(base), "to": "vllm"}
    blocks = []
    for name, given in [("a", {"index": str(tmp_path / "index")}), ("b", {"source": str(task)})]:
        made = tasc.export(tasc.ExportOptions(**options, **given))
        (tmp_path / name).mkdir()
        made.save(tmp_path / name)
        assert made.to_dict()["index"]["tokens"] == counted.to_dict()["tokens"]
        blocks.append((tmp_path / name / "index" / "index.tasc").read_bytes())
    assert blocks[0] == blocks[1]
    tokenizer = tasc.tokenizer.loaded.load_tokenizer(str(base))
    loaded = load_index(tmp_path / "a" / "index", tokenizer)
    assert [tokenizer.decode(ids.tolist()) for ids in indexed_outputs(loaded)] == OUTPUTS


def test_an_export_without_drafts_is_the_plain_model(tmp_path, base):
    made = tasc.export(tasc.ExportOptions(model=str(base), to="vllm"))
    assert made.to_dict()["drafts"] is False
    assert "speculative" not in made.to_dict()["command"]
    made.save(tmp_path)
    expected = AutoModelForCausalLM.from_pretrained(base).state_dict()
    found = AutoModelForCausalLM.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_a_foreign_model_type_or_a_missing_merge_is_told(tmp_path):
    with pytest.raises(InputError, match="to:"):
        tasc.ExportOptions(model="m", to="onnx")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_in_float32_stays_in_float32(tmp_path, base, engine, dtype):
    """These engines round float32 to 16 bits unless told not to, which changes outputs."""
    shutil.copytree(base, tmp_path / "model")
    config = json.loads((base / "config.json").read_text())
    config.pop("torch_dtype", None)
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "dtype": dtype}))
    made = tasc.export(tasc.ExportOptions(model=str(tmp_path / "model"), to=engine))
    words = shlex.split(made.to_dict()["command"])
    assert ("--dtype" in words) == made.to_dict()["exact"] == (dtype == "float32")
    assert dtype == "bfloat16" or words[words.index("--dtype") + 1] == "float32"


def test_vllm_is_told_the_proposer_the_index_and_how_many_tokens(base, task):
    options = tasc.ExportOptions(model=str(base), to="vllm", source=str(task), speculative_tokens=5)
    words = shlex.split(tasc.export(options).to_dict()["command"])
    speculative = json.loads(words[words.index("--speculative-config") + 1])
    assert speculative == {
        "method": "custom_class",
        "model": "tasc.serving.vllm.TascProposer",
        "num_speculative_tokens": 5,
    }
    assert json.loads(words[words.index("--additional-config") + 1]) == {"tasc": {"index": "index"}}


def test_sglang_drafts_from_a_corpus_of_the_outputs(tmp_path, base, task):
    options = {"model": str(base), "to": "sglang", "speculative_tokens": 5}
    made = tasc.export(tasc.ExportOptions(**options, source=str(task)))
    made.save(tmp_path)
    lines = (tmp_path / "corpus.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == OUTPUTS
    assert not (tmp_path / "index").exists()
    words = shlex.split(made.to_dict()["command"])
    found = {word: words[i + 1] for i, word in enumerate(words) if "speculative" in word}
    assert found == {
        "--speculative-algorithm": "NGRAM",
        "--speculative-num-draft-tokens": "6",
        "--speculative-ngram-external-corpus-path": "corpus.jsonl",
        "--speculative-ngram-external-sam-budget": "5",
    }
    plain = tasc.export(tasc.ExportOptions(**options)).to_dict()["command"]
    assert "speculative" not in plain


@pytest.fixture(scope="module")
def folder(tmp_path_factory, base):
    """An export for transformers whose index knows what the model writes."""
    model = AutoModelForCausalLM.from_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(base)
    ids = tokenizer(PROMPTS[0])["input_ids"]
    written = model.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False)[0].tolist()
    source = tmp_path_factory.mktemp("written")
    row = {"input": PROMPTS[0], "output": tokenizer.decode(written[len(ids) :])}
    (source / "train.jsonl").write_text(json.dumps(row))
    options = tasc.ExportOptions(model=str(base), to="transformers", source=str(source))
    out = tmp_path_factory.mktemp("export")
    tasc.export(options).save(out)
    return out, ids, written


def counted(model, ids, **options):
    """Return 24 greedy tokens after ``ids``, and the forwards that they took."""
    forwards = []
    handle = model.register_forward_hook(lambda *_: forwards.append(1))
    prompt = torch.tensor([ids])
    mask = torch.ones_like(prompt)
    out = model.generate(prompt, attention_mask=mask, max_new_tokens=24, do_sample=False, **options)
    handle.remove()
    return out[0].tolist(), len(forwards)


def test_an_exported_model_drafts_with_the_method_in_its_folder(folder, monkeypatch):
    out, ids, written = folder
    flat = CostModel((1, 65), (1.0, 1.0))  # measuring T(k) takes forwards, which are counted
    monkeypatch.setattr("tasc.decoding.library.measured_cost", lambda _: flat)
    stopped = SimpleNamespace(perf_counter=lambda: 0.0)  # drafts take no time, however busy it is
    monkeypatch.setattr("tasc.decoding.adaptive.time", stopped)
    model = AutoModelForCausalLM.from_pretrained(out, trust_remote_code=False)
    plain, steps = counted(model, ids)
    drafted, fewer = counted(model, ids, custom_generate=tasc.load_custom_generate(out))
    assert plain == drafted == written
    assert fewer < steps == 24


def test_a_folder_without_drafts_has_no_method(tmp_path, base):
    tasc.export(tasc.ExportOptions(model=str(base), to="transformers")).save(tmp_path)
    with pytest.raises(InputError, match="has no index"):
        tasc.load_custom_generate(tmp_path)


def stranger(base, folder, mark):
    """Copy a model whose files name code that makes the folder ``mark`` when it is imported."""
    names = {"AutoModelForCausalLM": "evil.Model", "AutoConfig": "evil.Config"}
    pipelines = {"text-generation": {"impl": "evil.Pipeline", "pt": ["AutoModelForCausalLM"]}}
    copied(base, folder, auto_map=names, custom_pipelines=pipelines)
    stated = json.loads((folder / "tokenizer_config.json").read_text())
    stated |= {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))
    for name in ("evil.py", "custom_generate/generate.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    return folder


@pytest.mark.parametrize("engine", EXPORTS)
def test_an_export_neither_contains_nor_names_code(tmp_path, base, task, engine):
    """Even if its user trusts remote code."""
    if engine == "llama-cpp":
        pytest.importorskip("gguf", reason="the extra llama-cpp is not installed")
    model, out = stranger(base, tmp_path / "model", tmp_path / "ran"), tmp_path / "out"
    options = {"model": str(model), "to": engine, "source": str(task)}
    tasc.export(tasc.ExportOptions(**options)).save(out)
    assert not [name for name in files(out) if name.endswith(".py")]
    texts = [path.read_text() for path in out.rglob("*.json")]
    assert not [text for text in texts if "evil" in text or "custom_pipelines" in text]
    assert "trust_remote_code=True" not in (out / "README.md").read_text()
    if engine != "llama-cpp":
        AutoModelForCausalLM.from_pretrained(out, trust_remote_code=True)
        AutoTokenizer.from_pretrained(out, trust_remote_code=True)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("key", ["_attn_implementation", "experts_implementation"])
@pytest.mark.parametrize("value", ["somebody/kernel", {"text_config": "somebody/kernel"}])
def test_a_model_that_names_a_kernel_repository_is_not_exported(tmp_path, base, key, value):
    model = copied(base, tmp_path / "model", **{key: value})
    with pytest.raises(InputError, match="somebody/kernel"):
        tasc.export(tasc.ExportOptions(model=str(model), to="vllm"))


def broken(base, folder, how):
    """Copy a model and break it."""
    config = {
        "vocabulary": {"vocab_size": 2**40},
        "layers": {"num_hidden_layers": 10**9},
        "heads": {"num_attention_heads": 0},
    }
    copied(base, folder, **config.get(how, {}))
    if how == "junk":
        (folder / "model.safetensors").write_bytes(b"junk" * 100)
    if how == "pickle":
        bomb(folder / "model.safetensors", folder / "ran")
    if how == "adapter":
        (folder / "adapter_config.json").write_text("{}")
    return folder


@pytest.mark.parametrize("how", ["vocabulary", "layers", "heads", "junk", "pickle", "adapter"])
@pytest.mark.parametrize("engine", ["vllm", "llama-cpp"])
def test_export_refuses_what_other_commands_refuse(tmp_path, base, engine, how):
    if engine == "llama-cpp":
        pytest.importorskip("gguf", reason="the extra llama-cpp is not installed")
    model = broken(base, tmp_path / "model", how)
    with pytest.raises(TascError) as refused:
        tasc.export(tasc.ExportOptions(model=str(model), to=engine))
    with pytest.raises(TascError) as loading:
        load_model(str(model))
    assert str(refused.value) == str(loading.value)
    assert not (model / "ran").exists()


def test_the_readme_of_transformers_runs_as_it_stands(folder):
    out, _, _ = folder
    (code,) = re.findall(r"```python\n(.*?)\n```", (out / "README.md").read_text(), re.DOTALL)
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=out)
    assert ran.stdout.strip()


def test_a_recipe_ends_with_something_to_serve(capsys, tmp_path, base, task):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"name: x\ndescription: y\ndata: {{path: {task}}}\nsteps:\n"
        f"  counted: {{command: index, tokenizer: {base}}}\n"
        f"  served: {{command: export, model: {base}, index: counted, to: vllm}}\n"
        f"  plain: {{command: export, model: served, to: transformers, source: null}}\n"
    )
    for state in ("done", "up to date"):
        code, out, err = run(capsys, "run", recipe, "--output", tmp_path / "out")
        assert code == 0, err
        assert f"served: {state}" in err
        assert EXPORTS["vllm"].limits in " ".join(out.split())
    assert (tmp_path / "out" / "served" / "index" / "index.tasc").is_file()
    result = json.loads((tmp_path / "out" / "plain" / "export.json").read_text())
    assert result["drafts"] is False
    assert not (tmp_path / "out" / "plain" / "index").exists()
