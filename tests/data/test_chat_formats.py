"""Random chats are the same in files of every format, and as in ``apply_chat_template``."""

import os

import numpy as np
import pyarrow
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.core.batch import encode_examples
from tests.data.random_chats import FORMATS, TEMPLATE, chats, expected

FEW = 200
COUNT = int(os.environ.get("TASC_CHATS", FEW))  # more write the prompts of every format
SEED = int(os.environ.get("TASC_CHATS_SEED", "0"))
# Older releases of pyarrow sort the keys of dictionaries that they write.
KEEPS_ORDER = [*pyarrow.array([{"b": 1, "a": 2}])[0].as_py()] == ["b", "a"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]


@pytest.fixture(scope="module")
def theirs():
    """A tokenizer with the template, as transformers has it."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    raw.train_from_iterator(["wake me", "play jazz at nine"], trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>")
    made.add_special_tokens({"additional_special_tokens": SPECIAL})
    made.chat_template = TEMPLATE
    return made


@pytest.fixture(scope="module")
def tokenizer(theirs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    theirs.save_pretrained(folder)
    return load_tokenizer(str(folder))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The chats, and a folder with a file in each format."""
    folder, rows = tmp_path_factory.mktemp("chats"), chats(COUNT, SEED)
    for name, write in FORMATS.items():
        write(rows, folder / name)
    return rows, folder


def written(path, tokenizer):
    return ChatTemplate.of(tokenizer).apply(load(Source(str(path)), "train"))


def test_training_sees_what_apply_chat_template_masks(
    files, theirs, tokenizer, record_testsuite_property
):
    rows, folder = files
    corpus = written(folder / "chats.jsonl", tokenizer)
    seen = encode_examples(tokenizer, corpus.prompts, corpus.outputs, 10**6)
    known = [one for row in rows for one in expected(row)]
    assert len(known) == len(seen) > COUNT
    learnt = 0
    for i, (messages, tools) in enumerate(known):
        whole = theirs.apply_chat_template(
            messages, tools=tools, return_dict=True, return_assistant_tokens_mask=True
        )
        prompt = theirs.apply_chat_template(
            messages[:-1], tools=tools, add_generation_prompt=True, return_dict=False
        )
        part = slice(*seen.offsets[i : i + 2])
        tokens, targets = seen.tokens[part].tolist(), seen.targets[part]
        assert tokens == whole["input_ids"][: len(tokens)]
        assert theirs.decode(whole["input_ids"][len(tokens) :]) == "\n"
        assert tokens[: len(prompt)] == prompt
        mask = np.array(whole["assistant_masks"][: len(tokens)], bool)
        mask[: len(prompt)] = False  # earlier answers are context here
        assert targets.tolist() == mask.tolist()
        learnt += int(targets.sum())
    record_testsuite_property("targets", learnt)
    assert learnt > 2 * len(known)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "chats.jsonl"])
def test_prompts_and_targets_do_not_depend_on_the_format(files, tokenizer, name):
    _, folder = files
    paths = [str(folder / each) for each in ("chats.jsonl", name)]
    wanted, found = (load(Source(path), "train") for path in paths)
    # A prompt and a target are functions of the turn, which the examples contain.
    assert found.examples == wanted.examples
    if KEEPS_ORDER:
        assert found.fingerprint == wanted.fingerprint
    if COUNT > FEW:
        wanted, found = (written(path, tokenizer) for path in paths)
        assert (found.prompts, found.outputs) == (wanted.prompts, wanted.outputs)


def test_a_difference_would_be_noticed(tmp_path, tokenizer):
    """Weights, calls, tools and reasoning of the chats reach prompts, targets or their choice."""
    rows = chats(20, SEED)
    changes = {
        "tools": [{**row, "tools": None} for row in rows],
        "weight": [_without(row, "weight") for row in rows],
        "masked": [_without(row, "masked") for row in rows],
        "loss": [{**row, "loss": None} for row in rows],
        "tool_calls": [_without(row, "tool_calls") for row in rows],
        "reasoning_content": [_without(row, "reasoning_content") for row in rows],
    }
    seen = []
    for changed in (rows, *changes.values()):
        FORMATS["chats.jsonl"](changed, tmp_path / "changed.jsonl")
        found = written(tmp_path / "changed.jsonl", tokenizer)
        seen.append((found.prompts, found.outputs))
    assert all(found != seen[0] for found in seen[1:])


def _without(row, key):
    kept = [{k: v for k, v in message.items() if k != key} for message in row["messages"]]
    return {**row, "messages": kept}
