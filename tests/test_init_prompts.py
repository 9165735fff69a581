"""How ``tasc init`` chooses a prompt: candidates, the rule of the choice, and what is written."""

import json
import math
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from tasc.commands.plan import RunOptions, read
from tasc.commands.starter import trial
from tasc.commands.starter.prompts import (
    BARE,
    best,
    candidates,
    few_shot,
    is_clear,
    labelled,
    with_figures,
    written,
)
from tasc.data.source import Source
from tasc.tokenizer.loaded import load_tokenizer
from tests.cli import done, printed, tasc
from tests.data.test_chat_template import CHATML
from tests.pico import END, make_base, restate
from tests.recipes import write

ROWS = [{"line": f"wake me at {n}", "template": "wake me at <*>"} for n in range(100)]
COLUMNS = ("--input-column", "line", "--output-column", "template")
GENERIC, NAMED = "Input: {input}\nOutput: ", "Line: {input}\nTemplate: "


def source(before="line", after="template"):
    return Source(path="x", input_column=before, output_column=after)


@pytest.fixture
def chatty(tmp_path):
    """A model whose tokenizer has a chat template with braces, and a beginning token."""
    folder = make_base(tmp_path / "chatty")
    state = json.loads((folder / "tokenizer.json").read_text())
    added = state["added_tokens"]
    for name in ("<s>", "<|im_start|>", "<|im_end|>"):
        number = max(state["model"]["vocab"].values()) + 1
        state["model"]["vocab"][name] = number
        added.append({**added[0], "id": number, "content": name})
    (folder / "tokenizer.json").write_text(json.dumps(state))
    template = CHATML.replace("Be helpful.", "Be {{ '{kind}' }}.")
    restate(folder / "tokenizer_config.json", chat_template=template, bos_token="<s>")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(len(state["model"]["vocab"]), mean_resizing=False)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tasc.commands.starter.write.estimate_steps", lambda *_: {})
    return write(Path("mine.jsonl"), ROWS)


def task(path="task.yaml"):
    return yaml.safe_load(Path(path).read_text())


@pytest.mark.parametrize(
    ("before", "after", "template"),
    [
        ("line", "template", NAMED),
        ("log_line", "event-name", "Log line: {input}\nEvent name: "),
        ("frage", "réponse", "Frage: {input}\nRéponse: "),
        ("input", "output", GENERIC),
        ("q", "a", GENERIC),
        ("text", "y", GENERIC),
        ("col_1", "label", GENERIC),
        ("a{b}", "label", GENERIC),
        ("two  gaps", "label", GENERIC),
    ],
)
def test_columns_that_are_words_label_the_prompt(before, after, template):
    assert labelled(source(before, after)) == template


def test_candidates_begin_with_the_preferred_and_have_a_beginning_token(chatty):
    chat = (
        "<|im_start|>system\nBe {{kind}}.<|im_end|>\n<|im_start|>user\n"
        "Write the template of this line:\n{input}<|im_end|>\n<|im_start|>assistant\n"
    )
    pairs = [[each, "<s>" + each] for each in (NAMED, GENERIC, chat, BARE)]
    tokenizer = load_tokenizer(str(chatty))
    assert candidates(source(), tokenizer) == list(chain(*pairs))
    restate(chatty / "tokenizer_config.json", bos_token=None, chat_template=None)
    plain = load_tokenizer(str(chatty))
    assert candidates(source(), plain) == [NAMED, GENERIC, BARE]
    assert candidates(source("input", "output"), plain) == [GENERIC, BARE]


def test_a_beginning_token_that_the_chat_template_writes_is_not_doubled(chatty):
    restate(chatty / "tokenizer_config.json", chat_template="{{ bos_token }}" + CHATML)
    found = candidates(source(), load_tokenizer(str(chatty)))
    assert [one.count("<s>") for one in found] == [0, 1, 0, 1, 1, 0, 1]


def test_a_chat_prompt_has_the_tokens_of_apply_chat_template(chatty):
    tokenizer = load_tokenizer(str(chatty))
    template = next(one for one in candidates(source(), tokenizer) if one.startswith("<|im"))
    text = "wake {me} at 9"
    said = {"role": "user", "content": f"Write the template of this line:\n{text}"}
    theirs = AutoTokenizer.from_pretrained(chatty)
    expected = theirs.apply_chat_template([said], add_generation_prompt=True, return_dict=False)
    assert tokenizer.encode(written(template, [text])).tokens.tolist() == expected
    assert theirs.convert_tokens_to_ids("<|im_start|>") in expected


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ raise_exception('no') }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}",  # the input twice
        "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
    ],
)
def test_a_chat_template_that_does_not_write_the_input_as_it_is_is_left_out(chatty, template):
    restate(chatty / "tokenizer_config.json", chat_template=template, bos_token=None)
    assert candidates(source(), load_tokenizer(str(chatty))) == [NAMED, GENERIC, BARE]


def losses(**means):
    """Losses of 50 outputs with these means; paired differences have a standard error of 0.1."""
    noise = np.tile([1.0, -1.0], 25) * 0.1 * math.sqrt(49)
    shared = np.linspace(0, 30, 50)  # of the outputs themselves: pairs cancel it
    return {
        name: mean + shared + (noise if i % 2 else 0)
        for i, (name, mean) in enumerate(means.items())
    }


@pytest.mark.parametrize(
    ("means", "chosen"),
    [
        ({"named": 10.1, "chat": 10.0}, "named"),  # one standard error
        ({"named": 10.3, "chat": 10.0}, "chat"),  # three
        ({"named": 10.0, "chat": 9.7, "bare": 9.6}, "chat"),
        ({"named": 10.0, "bare": 9.9}, "named"),
        ({"named": 10.0, "bare": 9.0}, "bare"),
        ({"named": 10.0, "chat": 10.0}, "named"),
    ],
)
def test_the_preferred_wins_within_two_standard_errors(means, chosen):
    assert best(losses(**means)) == chosen


def test_the_same_losses_and_a_single_output_are_decided(chatty):
    same = np.arange(9.0)
    assert best({"a": same, "b": same}) == "a"
    assert best({"a": same + 1e-3, "b": same}) == "b"  # always worse, without any noise
    assert best({"a": np.array([2.0]), "b": np.array([1.0])}) == "a"


def test_figures_are_means_with_the_best_first():
    found = with_figures("b", {"a": np.array([1.0, 3]), "b": np.array([3.0, 5])}, {})
    assert [(one.template, one.nats) for one in found.tried] == [("a", 2.0), ("b", 4.0)]
    found = with_figures("b", {"a": np.array([1.0]), "b": np.array([3.0])}, {"b": np.array([0.5])})
    assert [(one.template, one.trained_nats) for one in found.tried] == [("b", 0.5), ("a", None)]
    assert (found.template, found.outputs) == ("b", 1)


def test_losses_are_those_of_transformers_for_each_output(chatty):
    tokenizer = load_tokenizer(str(chatty))
    model = AutoModelForCausalLM.from_pretrained(chatty)
    held = [(f"play song {n}", f"song {'x' * n}") for n in range(20)]
    tried = trial.Trial(str(chatty), 0, tokenizer, held, (), 0)
    measured = trial._measured(model, tried, NAMED)
    theirs = AutoTokenizer.from_pretrained(chatty)
    for (text, output), loss in zip(held, measured, strict=True):
        prompt = theirs(f"Line: {text}\nTemplate: ", add_special_tokens=False)["input_ids"]
        answer = theirs(output + END, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([prompt + answer])
        labels = ids.clone()
        labels[:, : len(prompt)] = -100
        with torch.no_grad():
            mean = model(input_ids=ids, labels=labels).loss
        assert loss == pytest.approx(float(mean) * len(answer), rel=1e-4)


def test_inputs_are_measured_once_and_never_trained_on(base):
    tokenizer = load_tokenizer(str(base))
    pairs = [(f"at {n % 90}", f"{n}") for n in range(300)] + [("long " * 2000, "x")]
    held, learnt = trial.divided(pairs, tokenizer, 4, 0)
    assert (len(held), len(learnt)) == (45, 45)
    assert {text for text, _ in held}.isdisjoint(text for text, _ in learnt)
    assert all(text == f"at {output}" for text, output in [*held, *learnt])  # the first outputs
    assert trial.divided(pairs, tokenizer, 4, 0) == (held, learnt)
    assert trial.divided(pairs, tokenizer, 4, 1) != (held, learnt)
    longer = [(text + " word" * 150, output) for text, output in pairs]
    assert 8 <= len(trial.divided(longer, tokenizer, 8, 0)[0]) < 45


@pytest.fixture
def scripted(monkeypatch):
    """Replace the losses of a model by given ones."""
    calls = []

    def by(untuned, trained=None, shot=1.9):
        def measured(_model, tried, template):
            calls.append((template, tried.held_out))
            return np.full(len(tried.held_out), untuned.get(template, 1.0))  # those with examples

        monkeypatch.setattr(trial, "_loaded", lambda _: None)
        monkeypatch.setattr(trial, "_measured", measured)
        monkeypatch.setattr(
            trial,
            "_trained",
            lambda _, template, steps: (np.full(9, trained.get(template, shot)), 7),
        )
        return calls

    return by


def test_the_chosen_prompt_is_in_the_task_file_with_all_figures(capsys, base, scripted):
    calls = scripted({NAMED: 5.0, GENERIC: 4.0, BARE: 6.0})
    made = done(capsys, "init", "mine.jsonl", *COLUMNS, "--model", base)
    assert made["template"] == task()["template"] == GENERIC
    assert [(one["template"], one["nats"]) for one in made["prompts"]] == [
        (GENERIC, 4.0),
        (NAMED, 5.0),
        (BARE, 6.0),
    ]
    text = Path("task.yaml").read_text()
    assert f"#     4.00   {json.dumps(GENERIC)}   (chosen)" in text
    assert f"#     6.00   {json.dumps(BARE)}\n" in text
    assert "To change it, edit the next line" in text
    steps = read(Path("recipe.yaml"), RunOptions()).steps
    assert {steps[name].data.template for name in ("baseline", "tasc-ft", "bench")} == {GENERIC}
    # Test and validation examples have no part in the choice.
    lines = Path("mine-splits/train.jsonl").read_text().splitlines()
    trained = {json.loads(line)["line"] for line in lines}
    assert {text for _, held in calls for text, _ in held} <= trained


def test_the_choice_is_printed_in_one_line(capsys, base, scripted):
    scripted({NAMED: 4.0, GENERIC: 4.0, BARE: 6.0})
    out = printed(capsys, "init", "mine.jsonl", *COLUMNS, "--model", base)
    assert f"prompt: {json.dumps(NAMED)} (4.00 nats per output; 3 prompts tried)\n" in out
    Path("other").mkdir()
    out = printed(capsys, "init", "mine.jsonl", *COLUMNS, "--recipe", "other/recipe.yaml")
    assert f"prompt: {json.dumps(NAMED)} (not tried with a model)\n" in out


def test_with_hours_the_losses_after_training_decide(base, scripted):
    scripted({NAMED: 5.0, GENERIC: 4.0, BARE: 6.0}, {NAMED: 2.0, GENERIC: 3.0, BARE: 2.5})
    pairs = [(row["line"], row["template"]) for row in ROWS]
    tokenizer, seen = load_tokenizer(str(base)), []

    def choose(hours):
        progress = lambda *step: seen.append(step)  # noqa: E731
        return trial.choose(str(base), 1e6, tokenizer, source(), pairs, hours, 0, progress)

    assert choose(0.5).template == NAMED
    # Two prompts without examples, the lowest first, and one with examples, which gains too little.
    longest = choose(2)
    assert [one.trained_nats for one in longest.tried] == [1.9, 2.0, 3.0, None, None]
    after = "the prompt with the lowest untuned loss, after "
    numbers = {line.partition(after)[2] for line in longest.lines}
    assert numbers == {"", "one example", "3 examples"}
    assert seen[0] == ("try prompts", 0, 8)
    assert seen[8] == ("try prompts", 8, 8)
    for hours in (None, 0.4):
        seen.clear()
        assert choose(hours).template == GENERIC
        assert seen[-1] == ("try prompts", 3, 3)  # none with examples, which only training chooses


def test_a_model_is_trained_with_each_prompt_from_the_same_start(base):
    pairs = [(row["line"], row["template"]) for row in ROWS]
    tokenizer = load_tokenizer(str(base))
    held, learnt = trial.divided(pairs, tokenizer, 3, 0)
    tried = trial.Trial(str(base), 1e5, tokenizer, held, learnt, 0)
    first, steps = trial._trained(tried, NAMED, None)
    untuned = trial._measured(trial._loaded(tried), tried, NAMED)
    assert (steps, first.shape) == (14, untuned.shape)
    assert first.mean() < untuned.mean()  # 52 rows with the same output
    again, steps = trial._trained(tried, NAMED, 3)
    assert steps == 3
    assert not np.array_equal(again, first)


@pytest.mark.parametrize("reason", ["too large", "too long"])
def test_models_and_examples_that_are_too_large_are_not_tried(base, reason, monkeypatch):
    monkeypatch.setattr(trial, "_loaded", None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    word = " word" * (2000 if reason == "too long" else 1)
    pairs = [(f"{n}{word}", "on") for n in range(99)]
    size = trial.LARGEST_CPU + 1 if reason == "too large" else 9
    arguments = str(base), size, load_tokenizer(str(base)), source(), pairs, 1.0, 0, None
    chosen = trial.choose(*arguments)
    assert (chosen.template, chosen.tried) == (NAMED, ())


@pytest.mark.parametrize("model", [None, "Qwen/Qwen2.5-0.5B"])
def test_without_a_local_model_the_columns_label_the_input(capsys, model):
    made = done(capsys, "init", "mine.jsonl", *COLUMNS, *(["--model", model] if model else []))
    assert (made["template"], made["prompts"]) == (NAMED, [])
    assert task()["template"] == NAMED
    assert "The prompt, not tried with a model." in Path("task.yaml").read_text()


def test_nothing_is_tried_with_a_template_or_a_task_file(capsys, base, monkeypatch):
    monkeypatch.setattr("tasc.commands.starter.trial.choose", None)
    given = (*COLUMNS, "--template", "{input}\\n", "--model", base)
    made = done(capsys, "init", "mine.jsonl", *given)
    assert (made["template"], task()["template"]) == (None, BARE)
    for name in ("train", "test"):
        write(Path("data") / f"{name}.jsonl", ROWS)
    columns = "input_column: line\noutput_column: template\n"
    Path("mine.yaml").write_text(f"path: data\n{columns}")
    found = done(capsys, "init", "mine.yaml", "--model", base, "--recipe", "data/recipe.yaml")
    assert found["template"] is None
    pairs = [{"prompt": row["line"], "completion": row["template"]} for row in ROWS]
    write(Path("pairs/pairs.jsonl"), pairs)  # prompts are prompts already
    found = done(
        capsys, "init", "pairs/pairs.jsonl", "--model", base, "--recipe", "pairs/recipe.yaml"
    )
    assert found["template"] is None


def test_recognised_columns_are_named_beside_the_template(capsys, base):
    write(Path("told.jsonl"), [{"instruction": r["line"], "output": r["template"]} for r in ROWS])
    made = done(capsys, "init", "told.jsonl")
    assert made["template"] == "Instruction: {input}\nOutput: "
    assert (task()["input_column"], task()["output_column"]) == ("instruction", "output")
    printed(capsys, "data", "task.yaml", "--tokenizer", base)


def test_a_model_that_cannot_be_used_is_refused_and_nothing_is_written(capsys, base, tmp_path):
    broken = make_base(tmp_path / "broken")
    restate(broken / "config.json", hidden_size=32)
    before = sorted(Path.cwd().iterdir())
    code, _, err = tasc(capsys, "init", "mine.jsonl", *COLUMNS, "--model", broken)
    assert code != 0, err
    assert sorted(Path.cwd().iterdir()) == before


def test_special_tokens_without_an_id_are_no_beginning(chatty):
    config = json.loads((chatty / "tokenizer_config.json").read_text())
    tokenizer = load_tokenizer(str(chatty))
    absent = json.dumps(config | {"bos_token": "<absent>", "chat_template": None}).encode()
    found = candidates(source(), replace(tokenizer, files={"tokenizer_config.json": absent}))
    assert found == [NAMED, GENERIC, BARE]


EXAMPLES = [("at {9}", "at <*>"), ("in 3", "in <*>")]


def test_examples_are_in_front_of_the_input_or_earlier_messages(chatty):
    tokenizer = load_tokenizer(str(chatty))
    for begin in ("", "<s>"):
        template = few_shot(begin + NAMED, source(), tokenizer, EXAMPLES)
        solved = "Line: at {9}\nTemplate: at <*>\n\nLine: in 3\nTemplate: in <*>\n\n"
        assert written(template, ["x {y}"]) == [f"{begin}{solved}Line: x {{y}}\nTemplate: "]
    chat = next(one for one in candidates(source(), tokenizer) if one.startswith("<|im"))
    (prompt,) = written(few_shot(chat, source(), tokenizer, EXAMPLES), ["x {y}"])
    ask = "Write the template of this line:\n"
    contents = [f"{ask}at {{9}}", "at <*>", f"{ask}in 3", "in <*>", f"{ask}x {{y}}"]
    roles = ["user", "assistant"] * 3
    messages = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=False)]
    theirs = AutoTokenizer.from_pretrained(chatty)
    assert prompt == theirs.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    )


@pytest.mark.parametrize(("shot", "chosen"), [(1.9, False), (1.7, True)])
def test_examples_are_chosen_if_they_are_clearly_better_after_training(
    base, scripted, shot, chosen
):
    scripted({NAMED: 5.0, GENERIC: 4.0, BARE: 6.0}, {NAMED: 2.0, GENERIC: 3.0}, shot)
    pairs = [(row["line"], row["template"]) for row in ROWS]
    tokenizer = load_tokenizer(str(base))
    made = trial.choose(str(base), 1e6, tokenizer, source(), pairs, 1.0, 0, lambda *_: None)
    assert (made.template != NAMED) is chosen
    inputs = made.tried[0].template.count("Input: ")
    assert (made.tried[0].examples, inputs) == (inputs - 1, inputs)
    untuned = trial.choose(str(base), 1e6, tokenizer, source(), pairs, None, 0, lambda *_: None)
    assert untuned.template == GENERIC  # examples are never chosen without training


def test_a_clear_gain_exceeds_noise_and_a_tenth():
    other = np.full(50, 10.0)
    noise = np.tile([5.0, -5.0], 25)
    assert is_clear(other - 1.5, other)
    assert not is_clear(other - 0.5, other)
    assert not is_clear(other - 1.2 + noise, other)


def test_long_examples_are_not_put_into_prompts(base):
    tokenizer = load_tokenizer(str(base))
    short, long = [("at 9", "x")] * 3, [("word " * 400, "x")] * 3
    made = trial._with_examples(NAMED, source(), tokenizer, short)
    assert list(made.values()) == [1, 3]
    assert trial._with_examples(NAMED, source(), tokenizer, long) == {}
    assert list(trial._with_examples(NAMED, source(), tokenizer, short[:2]).values()) == [1]
