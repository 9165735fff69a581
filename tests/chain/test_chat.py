"""Chats from the data to the bench: a model is trained to answer, and ends its turn."""

import json

import pytest
from tokenizers import AddedToken
from transformers import AutoTokenizer, GenerationConfig

from tasc.tokenizer.loaded import load_tokenizer
from tests.cli import done, tasc
from tests.data.files import jsonl
from tests.data.test_chat_template import CHATML
from tests.pico import TEXTS, bigrams, build_bigram, make_model, make_tokenizer
from tests.seeds import SEED

MARKS = ("<|im_start|>", "<|im_end|>")
LEARN = ("--epochs", 8, "--learning-rate", 0.02, "--batch-size", 5, "--effective-batch", 5)
ANSWER = "ABCDEFGH"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model whose end token is not the one that ends a turn, as of Qwen2.5's base models."""
    folder = tmp_path_factory.mktemp("base")
    make_tokenizer(folder)
    tokenizer = load_tokenizer(str(folder)).tokenizer
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in MARKS])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHATML)
    return make_model(folder, vocabulary=322)


def write_chats(folder, pairs):
    rows = [
        {"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]}
        for a, b in pairs
    ]
    for split in ("train", "validation", "test"):
        (folder / f"{split}.jsonl").write_bytes(jsonl(rows * (4 if split == "train" else 1)))
    return folder


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return write_chats(tmp_path_factory.mktemp("task"), [text.split("\n") for text in TEXTS])


def test_a_trimmed_tokenizer_keeps_the_tokens_of_the_chat_template(capsys, tmp_path, base, task):
    given = ("--tokenizer", base, "--trim", "--output", tmp_path / "trimmed")
    found = done(capsys, "augment", task, *given)["trim"]
    shown = done(capsys, "data", task, "--tokenizer", base, "--samples", 20)["samples"]
    read = {token["id"] for sample in shown for token in sample["tokens"][:-1]}
    assert (found["used"], found["changed"]) == (len(read), 0)


def let_it_answer(folder):
    """Replace a model by one that writes ANSWER after each prompt, and then ends its turn."""
    ends = (folder / "generation_config.json").read_bytes()
    tokenizer = load_tokenizer(str(folder))
    newline, answer = (tokenizer.encode([text]).tokens.tolist() for text in ("\n", ANSWER))
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    logits = bigrams([[newline[-1], *answer, tokenizer.eos_id]], rows)
    build_bigram(logits).save_pretrained(folder)
    (folder / "generation_config.json").write_bytes(ends)


@pytest.mark.slow
def test_a_model_is_trained_on_chats_and_ends_its_turn(capsys, tmp_path, base):
    task = write_chats(tmp_path, [(text.split("\n")[0], ANSWER) for text in TEXTS])
    tokens, tuned, index = (tmp_path / name for name in ("tokens", "tuned", "index"))
    given = ("--tokenizer", base, "--budget", 8, "--output", tokens)
    code, _, err = tasc(capsys, "augment", task, *given)
    assert code == 0, err
    said = f"{task}: read as chats (messages); to read other columns, pass --input-column and"
    assert said in err
    added = [t["string"] for t in json.loads((tokens / "merges.json").read_text())["merges"]]
    assert added
    assert not [text for text in added if "<|" in text or "assistant" in text]
    learn = ("--model", base, "--augmented", tokens, "--merge", "--quantize", "none", *LEARN)
    trained = done(capsys, "finetune", task, *learn, "--seed", SEED, "--output", tuned)
    assert trained["evaluations"][-1]["loss"] < 0.5 * trained["evaluations"][0]["loss"]
    tokenizer = AutoTokenizer.from_pretrained(tuned / "model")
    assert (tokenizer.eos_token, tokenizer.chat_template) == (MARKS[1], CHATML)
    ends = GenerationConfig.from_pretrained(tuned / "model").eos_token_id
    assert ends[0] == tokenizer.eos_token_id
    let_it_answer(tuned / "model")
    done(capsys, "index", task, "--tokenizer", tuned, "--output", index)
    found = done(
        capsys,
        *("bench", task, "--model", tuned, "--index", index, "--method", "ar", "--method"),
        *("tasc-spec", "--max-new-tokens", 60, "--output", tmp_path / "bench"),
    )
    for cell in found["cells"]:
        assert [output["text"] for output in cell["outputs"]] == [ANSWER] * 5
        assert cell["quality"]["exact_match"] == 1
        assert cell["lossless"]["identical"] == 5
    assert found["samples"][0]["prompt"].endswith("nine<|im_end|>\n<|im_start|>assistant\n")
    assert all(r["identical"] == r["of"] > 0 for r in found["reference"])


def test_an_index_of_the_base_model_fits_a_bench_of_it(capsys, tmp_path, base, task):
    index = tmp_path / "index"
    done(capsys, "index", task, "--tokenizer", base, "--output", index)
    found = done(
        capsys,
        *("bench", task, "--model", base, "--index", index, "--method", "tasc-spec"),
        *("--max-new-tokens", 8, "--limit", 2, "--output", tmp_path / "bench"),
    )
    assert found["cells"][0]["lossless"]["of"] == 2


def test_an_analysis_and_a_tuning_read_chats(capsys, tmp_path, base, task):
    alone = done(capsys, "analyze", task, "--output", tmp_path / "words")
    assert alone["samples"] == 20
    found = done(capsys, "analyze", task, "--tokenizer", base, "--output", tmp_path / "tokens")
    assert found["drafting"]["best"]["samples"] == 5
    tuned = done(capsys, "tune", task, "--tokenizer", base, "--output", tmp_path / "tuned")
    assert tuned["best"]["samples"] == 5


def test_a_tokenizer_without_a_chat_template_is_refused_and_a_template_will_do(
    capsys, tmp_path, task
):
    plain = make_model(make_tokenizer(tmp_path / "plain"))
    given = ("finetune", task, "--model", plain, "--epochs", 1, "--limit", 5, "--quantize", "none")
    code, _, err = tasc(capsys, *given, "--output", tmp_path / "a")
    assert code == 2
    assert "the tokenizer has no chat template: choose a tokenizer with one, or" in err
    assert not (tmp_path / "a").exists()
    done(capsys, *given, "--template", "{input}\\n", "--output", tmp_path / "b")


def test_models_that_write_chats_differently_are_not_benched_side_by_side(
    capsys, tmp_path, base, task
):
    plain = make_model(make_tokenizer(tmp_path / "plain"))
    given = ("bench", task, "--model", base, "--model", plain, "--output", tmp_path / "bench")
    code, _, err = tasc(capsys, *given)
    assert code == 2
    assert f"{base} and {plain} have different chat templates: give models that share one" in err
