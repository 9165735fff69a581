"""Which rows of the embedding and the LM head train, and for how long."""

import json

import numpy as np
import pytest
import torch

from tasc.errors import InputError
from tasc.models.embeddings import extend_embeddings
from tasc.models.load import load_model
from tasc.options.command import OptionsError
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.finetuned import Start
from tasc.training.train import finetune
from tests import pico
from tests.options import FinetuneOptions, replace
from tests.training import samples
from tests.training.samples import ROWS, corpus

OPTIONS = replace(samples.OPTIONS, epochs=1.0, learning_rate=1e-2, rank=4, checkpoint_steps=0)
NEW = {row.new_id for row in ROWS}


def used(folder):
    """The tokens of the corpus, with the end token."""
    tokenizer, texts = load_tokenizer(str(folder)), corpus()
    encoded = [tokenizer.encode(column).tokens for column in (texts.prompts, texts.outputs)]
    return set(np.concatenate(encoded).tolist()) | {tokenizer.eos_id}


def moved(base, work, augmented=None, **options):
    """Rows of the merged model's embedding that training has changed."""
    start = Start(str(base), str(augmented or base), ROWS if augmented else ())
    done = finetune(start, corpus(), None, replace(OPTIONS, **options), work=work)
    before = load_model(str(base), dtype="float32")
    extend_embeddings(before, start.added)
    old = before.get_input_embeddings().weight
    new = done.merged().get_input_embeddings().weight
    return set(torch.nonzero((old != new).any(1))[:, 0].tolist())


def test_rows_of_new_tokens_alone_train(base, augmented, tmp_path):
    assert moved(base, tmp_path, augmented, train_rows="new") == NEW
    assert moved(base, tmp_path, train_rows="new") == set()


def test_rows_of_what_the_data_use_train(base, augmented, tmp_path):
    assert moved(base, tmp_path, augmented, train_rows="used") == NEW | used(augmented)
    assert moved(base, tmp_path, train_rows="used") == used(base)
    assert len(used(base)) < 200


def test_all_rows_train(base, augmented, tmp_path):
    assert moved(base, tmp_path, augmented, train_rows="all") == set(range(322))


def test_an_lm_head_with_a_bias_trains_adapters_alone(augmented, tmp_path):
    base = pico.make_base(tmp_path / "base", "phi", tied=False)
    assert moved(base, tmp_path / "work") == set()
    with pytest.raises(InputError, match="a bias"):
        moved(base, tmp_path / "work", augmented)


def test_training_reads_as_many_tokens_as_asked(base, tmp_path):
    start = Start(str(base), str(base))
    first = finetune(start, corpus(), None, OPTIONS, work=tmp_path).report
    (tmp_path / "training.json").write_text(json.dumps(first.to_dict()))
    given = {name: getattr(OPTIONS, name) for name in OPTIONS.model_fields_set - {"epochs"}}
    for name, value, tokens in (
        ("tokens", 2 * first.tokens, 2 * first.tokens),
        ("tokens_of", str(tmp_path), first.tokens),
    ):
        options = FinetuneOptions(**given, **{name: value})
        found = finetune(start, corpus(3), None, options, work=tmp_path / "work").report
        step = first.tokens / first.steps
        assert abs(found.tokens - tokens) < step


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"tokens": "7"}', '{"tokens": 0}'])
def test_a_folder_without_a_training_report_is_refused(base, tmp_path, content):
    (tmp_path / "training.json").write_text(content)
    options = FinetuneOptions(tokens_of=str(tmp_path))
    with pytest.raises(InputError, match="give a"):
        finetune(Start(str(base), str(base)), corpus(), None, options, work=tmp_path / "work")


def test_a_training_has_one_length():
    with pytest.raises(OptionsError, match="epochs and tokens exclude each other"):
        FinetuneOptions(epochs=2.0, tokens=100)
    with pytest.raises(OptionsError, match="tokens_of has no effect with draft_head"):
        FinetuneOptions(tokens_of="x", draft_head=True)
