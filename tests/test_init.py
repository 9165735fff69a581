"""``tasc init``: a recipe for one's own data that ``tasc run`` takes as it is."""

import json
from itertools import chain
from pathlib import Path

import pytest
import yaml

from tasc.commands.plan import RunOptions, read
from tasc.options.task import Task
from tasc.tokenizer.loaded import load_tokenizer
from tests.cli import done, printed, refused, tasc
from tests.data.test_chat_template import ANSWER, CHATML
from tests.pico import make_base, make_tokenizer, restate
from tests.recipes import write
from tests.test_disk import limited

ROWS = [{"input": f"wake me at {n}", "output": f"alarm_set, at {n}"} for n in range(100)]
STEERING = "x: [\x1b[31m\u202e\"'#"


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tasc.commands.starter.write.estimate_steps", lambda *_: {})
    return write(Path("mine.jsonl"), ROWS)


def write_task(folder="task", *splits):
    for name in splits or ("train", "test"):
        write(Path(folder) / f"{name}.jsonl", ROWS)


def planned(path="recipe.yaml"):
    return read(Path(path), RunOptions())


def rows(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def held_out():
    return [rows(f"mine-splits/{name}.jsonl") for name in ("train", "validation", "test")]


def test_a_file_alone_is_split_and_its_recipe_is_sound(capsys):
    write(Path("mine.jsonl"), [{**row, "id": 7} for row in ROWS])
    code, out, err = tasc(capsys, "init", "mine.jsonl", "--model", "Qwen/Qwen2.5-0.5B")
    assert (code, err) == (0, "")
    assert "splits: mine-splits (train 80, validation 10, test 10)" in out
    assert out.endswith("Next: tasc run recipe.yaml --dry-run\n")
    steps = planned().steps
    assert list(steps) == ["analysis", "tokens", "baseline", "tasc-ft", "bench"]
    assert {step.data.path for step in steps.values() if step.data} == {"mine-splits"}
    assert sorted(map(str, chain(*held_out()))) == sorted(map(str, ROWS))


def test_examples_without_an_output_are_not_held_out(capsys):
    empty = [{"input": f"nothing {n}", "output": " "} for n in range(50)]
    write(Path("mine.jsonl"), [*empty, *ROWS[:30]])
    found = done(capsys, "init", "mine.jsonl")
    assert found["held_out"] == {"train": 16, "validation": 7, "test": 7}
    write(Path("few.jsonl"), [*empty, *ROWS[:19]])
    Path("few").mkdir()
    told = refused(capsys, "init", "few.jsonl", "--recipe", "few/recipe.yaml")
    assert "19 different examples with an output" in told


def test_equal_examples_are_never_trained_on_and_tested(capsys):
    write(Path("mine.jsonl"), ROWS[:30] * 4)
    done(capsys, "init", "mine.jsonl")
    texts = [{row["input"] for row in part} for part in held_out()]
    assert sum(map(len, texts)) == 30  # each text is in one split
    assert sum(map(len, held_out())) == 120


def test_splits_that_are_there_are_taken_also_from_a_linked_folder(capsys):
    write_task()
    found = done(capsys, "init", "task")
    assert (found["held_out"], found["folder"]) == ({}, None)
    assert planned().steps["bench"].data.path == "task"
    there = {path.name for path in Path.cwd().iterdir()}
    assert there == {"mine.jsonl", "recipe.yaml", "task", "task.yaml"}
    Path("far/away").mkdir(parents=True)
    Path("near").symlink_to("far/away")
    done(capsys, "init", "task", "--recipe", "near/recipe.yaml")
    assert Path(planned("near/recipe.yaml").steps["bench"].data.path).samefile("task")


def test_a_task_file_is_referred_to_and_not_written_again(capsys):
    write_task("data/mine")
    Path("data/task.yaml").write_text("path: mine\nmetrics: [token_accuracy]\n")
    found = done(capsys, "init", "data/task.yaml")
    assert (found["task"], found["folder"]) == ("data/task.yaml", None)
    assert {path.name for path in Path.cwd().iterdir()} == {"data", "mine.jsonl", "recipe.yaml"}
    bench = planned().steps["bench"]
    assert (bench.data.path, bench.metrics) == ("data/mine", ("token_accuracy",))
    write_task("named", "train", "validation")
    Path("named.yaml").write_text("path: named\nsplits: {test: validation}\n")
    assert done(capsys, "init", "named.yaml", "--recipe", "named/r.yaml")["folder"] is None


def test_labels_of_one_word_get_a_recipe_without_new_tokens(capsys):
    labelled = [{"text": f"message {n}", "label": ("spam", "ham")[n % 2]} for n in range(40)]
    write(Path("mine.jsonl"), labelled)
    done(capsys, "init", "mine.jsonl", "--input-column", "text", "--output-column", "label")
    steps = planned().steps
    assert list(steps) == ["base", "analysis", "baseline", "bench"]
    assert steps["bench"].models == ("baseline",)
    assert "TASC-ft, each" not in Path("recipe.yaml").read_text()


def test_labels_and_schemas_are_written_beside_the_task_file(capsys):
    data = [{"input": f"wake me at {n}", "output": ["on", "off"][n % 2]} for n in range(100)]
    write(Path("mine.jsonl"), data)
    made = done(capsys, "init", "mine.jsonl")
    assert (made["constraint"], made["fitting"]) == ("mine-labels.txt", 1.0)
    assert Path("mine-labels.txt").read_text() == "off\non\n"
    bench = planned().steps["bench"]
    assert (bench.choices, bench.methods) == ("mine-labels.txt", ("ar", "tasc-spec", "choices"))
    assert bench.metrics == ("exact_match", "valid:choices=mine-labels.txt")
    named = [{**row, "output": json.dumps({"state": row["output"]})} for row in data]
    write(Path("json.jsonl"), named)
    Path("other").mkdir()
    out = printed(capsys, "init", "json.jsonl", "--recipe", "other/recipe.yaml")
    assert "outputs: other/json-schema.json fits 100.0% of held-out outputs" in out
    task = yaml.safe_load(Path("other/task.yaml").read_text())
    assert task.get("schema") == ("json-schema.json" if "schema" in Task.model_fields else None)


@pytest.mark.parametrize(("size", "tokens"), [(3, 64), (200, 128), (1000, 1024), (90_000, 2048)])
def test_the_longest_output_says_how_many_tokens_may_be_written(capsys, size, tokens):
    rows = [{"input": str(i), "output": f"{i} {'ab ' * (size // 3)}"} for i in range(30)]
    done(capsys, "init", write(Path("task.jsonl"), rows))
    assert yaml.safe_load(Path("task.yaml").read_text())["max_new_tokens"] == tokens
    assert planned().steps["bench"].max_new_tokens == tokens


def test_without_a_model_one_is_trained_from_scratch(capsys):
    done(capsys, "init", "mine.jsonl", "--seed", 3)
    steps = planned().steps
    assert next(iter(steps)) == "base"
    assert {step.seed for step in steps.values()} == {3}
    assert "tasc-ft" in printed(capsys, "run", "recipe.yaml", "--dry-run")


def test_an_export_that_supports_the_tokenizer_is_chosen(capsys, tmp_path):
    state = json.loads((make_base(tmp_path / "odd") / "tokenizer.json").read_text())
    spaces = {"type": "WhitespaceSplit"}
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [state["pre_tokenizer"], spaces]}
    (tmp_path / "odd" / "tokenizer.json").write_text(json.dumps(state))
    done(capsys, "init", "mine.jsonl", "--model", str(tmp_path / "odd"))
    assert planned().steps["tokens"].export == "added"
    printed(capsys, "run", "recipe.yaml", "--dry-run")
    text = Path("recipe.yaml").read_text()
    Path("recipe.yaml").write_text(text.replace("export: added", "export: pretoken"))
    line = refused(capsys, "run", "recipe.yaml", "--dry-run")
    assert "WhitespaceSplit" in line
    assert "use --export added" in line


def test_columns_and_templates_that_were_named_are_kept(capsys):
    write(Path("mine.jsonl"), [{"q": r["input"], "a": r["output"], "c": "d"} for r in ROWS])
    named = ("--input-column", "q", "--output-column", "a", "--template", "{c}: {input}\\n")
    done(capsys, "init", "mine.jsonl", *named)
    assert planned().steps["bench"].data.template == "{c}: {input}\n"
    assert set(rows("mine-splits/train.jsonl")[0]) == {"q", "a", "c"}
    assert '# template: "{input}' not in Path("task.yaml").read_text()


def test_chats_are_recognised_and_written_by_the_models_chat_template(capsys):
    rows_ = [{"messages": [{"role": "user", "content": f"{n}?"}, ANSWER]} for n in range(40)]
    write(Path("mine.jsonl"), rows_)
    plain, chatty = make_tokenizer(Path("plain")), make_tokenizer(Path("chatty"))
    restate(chatty / "tokenizer_config.json", chat_template=CHATML)
    for name, model, template in (("a", plain, "{input}\n"), ("b", chatty, None)):
        Path(name).mkdir()
        recipe = f"{name}/recipe.yaml"
        found = done(capsys, "init", "mine.jsonl", "--model", model, "--recipe", recipe)
        assert found["read_as"] == "chats"
        assert yaml.safe_load(Path(f"{name}/task.yaml").read_text()).get("template") == template
        steps = planned(recipe).steps
        assert steps["bench"].data.path == f"{name}/mine-splits"
        assert steps["baseline"].model == f"{name}/../{model}"


def test_a_missing_test_split_comes_from_the_training_examples(capsys):
    write(Path("data/train.jsonl"), ROWS)
    write(Path("data/validation.jsonl"), ROWS[:2])
    found = done(capsys, "init", "data")["held_out"]
    assert found["validation"] == 2
    assert found["train"] + found["test"] == len(ROWS)
    assert planned().steps["bench"].data.path == "data-splits"


def test_names_that_steer_are_quoted(capsys):
    name = f"{STEERING}.jsonl"
    write(Path(name), [{STEERING: r["input"], "output": r["output"]} for r in ROWS])
    done(capsys, "init", name, "--input-column", STEERING, "--output-column", "output")
    text = Path("recipe.yaml").read_text() + Path("task.yaml").read_text()
    assert not set(text) & {"\x1b", "\u202e"}
    assert planned().steps["bench"].data.input_column == STEERING


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("few.jsonl",), "has 2 different examples with an output, too few to hold out"),
        (("roles.jsonl",), "has no message with text of the role assistant"),
        (("absent.jsonl",), "no such file or folder"),
        (("empty",), "empty: the split 'test' is empty: add rows or choose another"),
        (("given.yaml",), "has no split test: add one beside the others"),
        (("mine.jsonl", "--recipe", "no/recipe.yaml"), "no is not a folder: create it"),
        (("mine.jsonl", "--recipe", "mine.jsonl"), "mine.jsonl exists and is not replaced"),
        (("mine.jsonl", "--recipe", "task.yaml"), "task.yaml is where the task file goes"),
        (("mine.jsonl", "--recipe", " "), "--recipe or --model is empty: give a file"),
    ],
)
def test_what_cannot_be_started_with_is_refused_and_nothing_is_written(capsys, arguments, said):
    write(Path("few.jsonl"), ROWS[:2] * 30)
    write(Path("roles.jsonl"), [{"messages": [{"role": "model", "content": "a"}]}] * 30)
    write_task("task", "train", "validation")
    write_task("empty")
    Path("empty/test.jsonl").write_text("")
    Path("given.yaml").write_text("path: task")
    before = sorted(Path.cwd().rglob("*"))
    assert said in refused(capsys, "init", *arguments)
    assert sorted(Path.cwd().rglob("*")) == before


def test_on_a_full_disk_nothing_is_left(capsys):
    before = sorted(Path.cwd().rglob("*"))
    with limited(3_000):
        assert "cannot write mine-splits/train.jsonl: " in refused(capsys, "init", "mine.jsonl")
    assert sorted(Path.cwd().rglob("*")) == before


def test_a_recipe_is_never_replaced(capsys):
    done(capsys, "init", "mine.jsonl")
    before = Path("recipe.yaml").read_text()
    for more in ((), ("--recipe", "other.yaml")):
        line = refused(capsys, "init", "mine.jsonl", *more)
        assert "exists and is not replaced: remove it, or name a" in line
    assert Path("recipe.yaml").read_text() == before


@pytest.mark.parametrize(
    ("parameters", "gpu", "rate", "quantization"),
    [
        (10**7, True, 3e-3, "none"),
        (135 * 10**6, False, 1e-3, "none"),
        (135 * 10**6, True, 1e-3, "nf4"),
        (10**9, True, 2e-4, "nf4"),
    ],
)
def test_training_fits_the_model_and_the_machine(
    capsys, monkeypatch, parameters, gpu, rate, quantization
):
    monkeypatch.setattr("tasc.commands.starter.model.count_parameters", lambda _: parameters)
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    make_base(Path("model"))
    # The GPU is not there: with a template, no prompt is tried on it.
    done(capsys, "init", "mine.jsonl", "--model", "model", "--template", "{input}\\n")
    steps = planned().steps
    ours, baseline = steps["tasc-ft"], steps["baseline"]
    assert ours.learning_rate == baseline.learning_rate == rate
    assert ours.quantization == baseline.quantization == quantization
    assert (ours.tokens_of, ours.augmented) == ("baseline", "tokens")  # equal compute


def test_options_follow_the_lengths_that_the_tokenizer_counts(capsys, base):
    rows = [{"input": "wake " * (n % 50), "output": "at five " * 60} for n in range(3000)]
    write(Path("mine.jsonl"), rows)
    done(capsys, "init", "mine.jsonl", "--model", base)
    tokenizer = load_tokenizer(str(base))
    outputs = len(tokenizer.encode(["at five " * 60]).tokens)
    training = planned().steps["baseline"]
    assert planned().steps["bench"].max_new_tokens >= 1.25 * outputs
    assert training.max_length >= outputs + len(tokenizer.encode(["wake " * 49 + "\n"]).tokens)
    assert (training.effective_batch, training.patience) == (32, 3)
    few = [{"input": f"{n}", "output": "five"} for n in range(60)]
    write(Path("few/few.jsonl"), few)
    done(capsys, "init", "few/few.jsonl", "--model", base, "--recipe", "few/recipe.yaml")
    assert planned("few/recipe.yaml").steps["baseline"].effective_batch == 8


def test_hours_that_are_too_short_name_how_many_are_needed(capsys, base, monkeypatch):
    line = refused(capsys, "init", "mine.jsonl", "--model", base, "--hours", "1e-6")
    assert "1e-06 hours are too short on this machine: a training example takes" in line
    assert [path.name for path in Path.cwd().iterdir()] == ["mine.jsonl"]
    line = refused(capsys, "init", "mine.jsonl", "--hours", "1")
    assert "--hours 1 measures a model and data on this machine" in line


def test_hours_are_measured_with_the_model(capsys, base):
    done(capsys, "init", "mine.jsonl", "--model", base, "--hours", "24")
    training = planned().steps["baseline"]
    assert (training.epochs, training.limit) == (10.0, None)
    assert "for 24 h in total" in Path("recipe.yaml").read_text()


@pytest.mark.parametrize(("rows", "trims"), [(150, True), (200, False)])
def test_a_model_with_a_large_vocabulary_is_trimmed_before_it_is_trained(
    capsys, monkeypatch, rows, trims
):
    monkeypatch.setattr("tasc.commands.trimmed.ROWS", rows)  # of 320
    monkeypatch.setattr("tasc.vocab.trim.ROWS", 1)  # so the task's tokens and bytes stay
    make_base(Path("base"), tied=False)  # 46 % of the weights are embeddings
    done(capsys, "init", "mine.jsonl", "--model", "base", "--hours", "50")
    steps = planned().steps
    assert ("trimmed" in steps) == trims
    assert steps["baseline"].model == ("trimmed" if trims else "base")
    assert ("of the weights are embeddings" in Path("recipe.yaml").read_text()) == trims
