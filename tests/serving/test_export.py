"""Exports: a folder appears whole or not at all, and engines load what is in it."""

import json
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

import tasc
from tasc.decoding.drafters.ngram.index import indexed_outputs, load_index
from tasc.errors import InputError, TascError
from tasc.models.cost_model import CostModel
from tasc.models.draft_head import new_head
from tasc.models.load import load_model
from tasc.report.markdown import block, code
from tasc.serving.table import EXPORTS
from tests.cli import done, refused
from tests.cli import tasc as run
from tests.models.strangers import bomb, copied
from tests.pico import make_base, restate
from tests.serving.conftest import ROWS

OUTPUTS = [row["output"] for row in ROWS]


def exported(model, engine, folder=None, **options):
    """Export a model to an engine, into ``folder`` if there is one."""
    made = tasc.export(tasc.ExportOptions(model=str(model), to=engine, **options))
    if folder is not None:
        folder.mkdir(exist_ok=True)
        made.save(folder)
    return made


def words_of(made):
    """The command that starts the engine, and the word that follows each of its words."""
    return dict(pairwise(shlex.split(made.to_dict()["command"])))


def files(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_an_export_is_one_folder_with_its_own_readme(capsys, tmp_path, base, task, engine):
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
    again = refused(capsys, "export", base, "--to", engine, "--output", out)
    assert "already exists" in again


@pytest.mark.parametrize("engine", ["vllm", "transformers"], indirect=True)
@pytest.mark.parametrize(
    ("template", "shown"),
    [("{input}\n", r"your input\n"), ("Q: {input}\nA:", r"Q: your input\nA:")],
)
def test_the_readme_asks_as_the_task_does(tmp_path, base, task, engine, template, shown):
    """A prompt without the newline of the template is another prompt to the model."""
    exported(base, engine, tmp_path, source={"path": str(task), "template": template})
    assert re.search(rf"(['\"]){re.escape(shown)}\1", (tmp_path / "README.md").read_text())


@pytest.mark.parametrize("engine", ["llama-cpp", "transformers"], indirect=True)
def test_the_readme_has_any_character_of_a_prompt(tmp_path, base, task, engine):
    template = "\N{GRINNING FACE} 'a' \\ {input}"
    exported(base, engine, tmp_path, source={"path": str(task), "template": template})
    assert repr(template.format(input="your input")) in (tmp_path / "README.md").read_text()


def with_settings(folder, tokens=()):
    """Make a model with special tokens, a penalty, sampling parameters and two end tokens."""
    make_base(folder, vocabulary=320 + len(tokens))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": [*tokens]})
    tokenizer.save_pretrained(folder)
    stated = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "max_new_tokens": 5}
    stated |= {"do_sample": True, "temperature": 0.7, "top_k": 20, "num_beams": 1}
    restate(folder / "generation_config.json", eos_token_id=[0, 7], **stated)
    return folder


def test_the_exported_settings_are_those_of_the_bench(tmp_path, engine):
    model, out = with_settings(tmp_path / "model"), tmp_path / "out"
    made = exported(model, engine, out)
    assert made.to_dict()["settings"] == {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3}
    readme = (out / "README.md").read_text()
    assert "max_new_tokens=5" in readme
    assert "temperature=0.7" in readme
    lost = "does not apply no_repeat_ngram_size=3" in readme
    assert lost == (engine != "transformers")
    if engine == "llama-cpp":
        assert words_of(made)["--repeat-penalty"] == "1.3"
        return
    written = GenerationConfig.from_pretrained(out)
    assert (written.repetition_penalty, written.no_repeat_ngram_size) == (1.3, 3)
    assert written.eos_token_id == [0, 7]
    removed = ("do_sample", "temperature", "top_k", "max_new_tokens")
    assert [getattr(written, name) for name in removed] == [None] * 4


def test_the_readme_of_a_library_shows_special_tokens(tmp_path, base):
    exported(base, "transformers", tmp_path)
    readme = (tmp_path / "README.md").read_text()
    assert "skip_special_tokens=True" not in readme
    assert "ends = [0]" in readme


def test_a_name_cannot_end_the_block_that_it_is_in():
    assert block("sh", "serve `a\n```\nb") == "````sh\nserve `a\n```\nb\n````"
    assert code("a```b") == "```` a```b ````"


def test_only_commands_stand_in_blocks_of_the_shell(tmp_path, base, engine):
    exported(base, engine, tmp_path)
    blocks = re.findall(r"```sh\n(.*?)\n```", (tmp_path / "README.md").read_text(), re.DOTALL)
    assert {text.split()[0] for text in blocks} <= {"pip", "python", "curl", "llama-server"}


def test_what_is_refused_leaves_nothing(capsys, tmp_path, base):
    other = make_base(tmp_path / "other", hidden=32)
    (tmp_path / "not-an-index").mkdir()
    narrow, foreign = (tmp_path / name for name in ("narrow", "foreign"))
    new_head(AutoModelForCausalLM.from_pretrained(other)).save(narrow)
    new_head(AutoModelForCausalLM.from_pretrained(base)).save(foreign)
    restate(foreign / "config.json", vocab_size=9999)
    for arguments, told in [
        ((base, "--to", "vllm", "--index", tmp_path / "not-an-index"), "holds no index"),
        ((base, "--to", "vllm", "--head", other), "takes no draft head"),
        ((base, "--to", "transformers", "--head", narrow), "it belongs to another model"),
        ((base, "--to", "transformers", "--head", foreign), "was made for 9999 tokens"),
        ((base, "--to", "vllm", "--weights", "f16"), "weights has no effect on vllm"),
        ((tmp_path / "absent", "--to", "vllm"), "no such"),
        ((base, "--to", "tensorrt"), "vllm"),
        ((base, "--to", "vllm", "--regex", "("), "regex '(' cannot be used"),
        ((base, "--to", "vllm", "--choices", "label"), "add --data"),
        ((f"a\N{NO-BREAK SPACE}b={base}", "--to", "vllm"), "cannot name a served model"),
    ]:
        assert told in refused(capsys, "export", *arguments, "--output", tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_the_index_is_the_one_given_or_counted_from_the_data(tmp_path, base, task):
    counted = tasc.index(tasc.IndexOptions(source=str(task), tokenizer=str(base)))
    (tmp_path / "index").mkdir()
    counted.save(tmp_path / "index")
    blocks = []
    for name, given in [("a", {"index": str(tmp_path / "index")}), ("b", {"source": str(task)})]:
        made = exported(base, "vllm", tmp_path / name, **given)
        assert made.to_dict()["index"]["tokens"] == counted.to_dict()["tokens"]
        blocks.append((tmp_path / name / "index" / "index.tasc").read_bytes())
    assert blocks[0] == blocks[1]
    tokenizer = tasc.tokenizer.loaded.load_tokenizer(str(base))
    loaded = load_index(tmp_path / "a" / "index", tokenizer)
    assert [tokenizer.decode(ids.tolist()) for ids in indexed_outputs(loaded)] == OUTPUTS


def test_an_export_without_drafts_is_the_plain_model(tmp_path, base):
    made = exported(base, "vllm", tmp_path)
    assert made.to_dict()["drafts"] is False
    assert "speculative" not in made.to_dict()["command"]
    expected = AutoModelForCausalLM.from_pretrained(base).state_dict()
    found = AutoModelForCausalLM.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    with pytest.raises(InputError, match="has no index"):
        tasc.load_custom_generate(tmp_path)


@pytest.mark.parametrize("engine", ["vllm", "sglang"], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_in_float32_stays_in_float32(tmp_path, base, engine, dtype):
    """These engines round float32 to 16 bits unless told not to, which changes outputs."""
    made = exported(copied(base, tmp_path / "model", dtype=dtype), engine)
    assert made.to_dict()["exact"] == (dtype == "float32")
    assert words_of(made).get("--dtype") == ("float32" if dtype == "float32" else None)


def test_vllm_is_told_the_proposer_the_index_and_how_many_tokens(base, task):
    words = words_of(exported(base, "vllm", source=str(task), speculative_tokens=5))
    assert json.loads(words["--speculative-config"]) == {
        "method": "custom_class",
        "model": "tasc.serving.vllm.TascProposer",
        "num_speculative_tokens": 5,
    }
    assert json.loads(words["--additional-config"]) == {"tasc": {"index": "index"}}


def test_sglang_drafts_from_a_corpus_of_the_outputs(tmp_path, base, task):
    made = exported(base, "sglang", tmp_path, source=str(task), speculative_tokens=5)
    lines = (tmp_path / "corpus.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == OUTPUTS
    assert not (tmp_path / "index").exists()
    found = {word: value for word, value in words_of(made).items() if "speculative" in word}
    assert found == {
        "--speculative-algorithm": "NGRAM",
        "--speculative-num-draft-tokens": "6",
        "--speculative-ngram-external-corpus-path": "corpus.jsonl",
        "--speculative-ngram-external-sam-budget": "5",
    }
    plain = exported(base, "sglang", speculative_tokens=5)
    assert "speculative" not in plain.to_dict()["command"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, base):
    """An export for transformers whose index knows what the model writes."""
    model = AutoModelForCausalLM.from_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(base)
    ids = tokenizer(ROWS[0]["input"])["input_ids"]
    written = model.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False)[0].tolist()
    source = tmp_path_factory.mktemp("written")
    row = {"input": ROWS[0]["input"], "output": tokenizer.decode(written[len(ids) :])}
    (source / "train.jsonl").write_text(json.dumps(row))
    out = tmp_path_factory.mktemp("export")
    exported(base, "transformers", out, source=str(source))
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
    monkeypatch.setattr("tasc.decoding.policy.time", stopped)
    model = AutoModelForCausalLM.from_pretrained(out, trust_remote_code=False)
    plain, steps = counted(model, ids)
    drafted, fewer = counted(model, ids, custom_generate=tasc.load_custom_generate(out))
    assert plain == drafted == written
    assert fewer < steps == 24


def stranger(base, folder, mark):
    """Copy a model whose files name code that makes the folder ``mark`` when it is imported."""
    names = {"AutoModelForCausalLM": "evil.Model", "AutoConfig": "evil.Config"}
    pipelines = {"text-generation": {"impl": "evil.Pipeline", "pt": ["AutoModelForCausalLM"]}}
    copied(base, folder, auto_map=names, custom_pipelines=pipelines)
    classes = {"AutoTokenizer": ["evil.Tokenizer", None]}
    restate(folder / "tokenizer_config.json", auto_map=classes)
    for name in ("evil.py", "custom_generate/generate.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    return folder


def test_an_export_neither_contains_nor_names_code(tmp_path, base, task, engine):
    """Even if its user trusts remote code."""
    model, out = stranger(base, tmp_path / "model", tmp_path / "ran"), tmp_path / "out"
    exported(model, engine, out, source=str(task))
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
        exported(model, "vllm")


def broken(base, folder, how):
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
@pytest.mark.parametrize("engine", ["vllm", "llama-cpp"], indirect=True)
def test_export_refuses_what_other_commands_refuse(tmp_path, base, engine, how):
    model = broken(base, tmp_path / "model", how)
    with pytest.raises(TascError) as exporting:
        exported(model, engine)
    with pytest.raises(TascError) as loading:
        load_model(str(model))
    assert str(exporting.value) == str(loading.value)
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
        printed = EXPORTS["vllm"].limits in " ".join(out.split())
        assert printed == (state == "done")
    assert (tmp_path / "out" / "served" / "index" / "index.tasc").is_file()
    result = json.loads((tmp_path / "out" / "plain" / "export.json").read_text())
    assert result["drafts"] is False
    assert not (tmp_path / "out" / "plain" / "index").exists()
