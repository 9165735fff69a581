import json

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, smooth_l1_loss
from transformers import GenerationConfig

from tasc.models.draft_head import load_head, new_head
from tasc.training import generate_targets
from tasc.training.core.batch import collate, encode_examples
from tasc.training.draft_head import train_head
from tasc.training.objectives import sampled
from tasc.training.objectives.eagle import EagleLoss, learner
from tasc.training.objectives.language import summed_loss
from tests import pico
from tests.options import FOURS, SHORT_ANSWERS, HeadOptions
from tests.training.runs import assert_same
from tests.training.samples import corpus, rows

OPTIONS = HeadOptions(epochs=30.0, learning_rate=5e-3, checkpoint_steps=5, **FOURS, **SHORT_ANSWERS)


@pytest.fixture(scope="module")
def result(base, tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    return train_head(str(base), corpus(), corpus(first=12), OPTIONS, work=work)


def test_training_brings_the_head_close_to_the_target(result):
    evaluations = result.report.evaluations
    assert evaluations[-1].loss < 0.6 * evaluations[0].loss
    assert evaluations[-1].exact > 0.5  # arg-maxes of 320 tokens that agree


def test_a_saved_head_loads_for_its_target(result, tmp_path):
    result.save(tmp_path)
    head = load_head(tmp_path, pico.build_model())
    assert_same(head.state_dict(), result.head.state_dict())


@pytest.mark.parametrize("stopped", ["answering prompts", "training"])
def test_an_interrupted_run_resumes_to_the_same_head(base, result, tmp_path, monkeypatch, stopped):
    monkeypatch.setattr(generate_targets, "_BATCH", 4)
    monkeypatch.setattr(generate_targets, "_PART", 2)
    calls = 0

    def interrupt(what, done, _total):
        nonlocal calls
        calls += what.startswith(stopped)
        if calls == (4 if stopped.startswith("answering") else 13):
            raise KeyboardInterrupt

    arguments = (str(base), corpus(), corpus(first=12), OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        train_head(*arguments, work=tmp_path, progress=interrupt)
    answered, trained = [], []

    def note(what, done, total):
        if done and not what.startswith("validating"):
            kind = answered if what.startswith("answering") else trained
            kind.append((total, done))

    again = train_head(*arguments, work=tmp_path, resume=True, progress=note)
    steps = sorted(done for _, done in trained)
    assert steps[:2] == ([1, 2] if stopped.startswith("answering") else [10, 11])
    if stopped.startswith("answering"):  # 20 prompts, of which 8 are answered
        assert min(done for total, done in answered if total == 20) >= 8
    assert again.report.losses == result.report.losses
    torch.testing.assert_close(again.head.state_dict(), result.head.state_dict())


def answers(model, tokenizer, work, new_tokens, **options):
    ends = {"eos_token_id": 0, "pad_token_id": 0}
    config = GenerationConfig(max_new_tokens=new_tokens, do_sample=False, **ends)
    options |= {"max_length": 30, "config": config}
    return generate_targets.generate_targets(model, tokenizer, corpus().prompts, work, **options)


def test_a_damaged_part_is_answered_again(tokenizer, tmp_path):
    model = pico.build_model()
    first = answers(model, tokenizer, tmp_path, 8)
    for file in tmp_path.glob("*.safetensors"):
        file.write_bytes(b"damaged")
    again = answers(model, tokenizer, tmp_path, 8, resume=True)
    assert first.fingerprint() == again.fingerprint()


def test_answers_are_the_targets_own(tokenizer, tmp_path):
    model = pico.build_model()
    answered = rows(answers(model, tokenizer, tmp_path, 20))
    assert len(answered) == 20
    for row, target in answered[:3]:
        prompt = row[~target]
        assert 1 <= len(prompt) <= 10
        assert row[target].tolist() == pico.continued(model, prompt, 20).tolist()


@pytest.fixture(scope="module")
def batch(tokenizer):
    data = encode_examples(tokenizer, corpus().prompts[:5], corpus().outputs[:5], 200)
    return data, collate(data, np.arange(len(data)))


def test_the_loss_is_eagles_on_the_states_that_lead_to_targets(batch):
    model, (data, together) = pico.build_model(), batch
    head, lm_head = new_head(model), model.get_output_embeddings()
    expected = torch.tensor(0.0)
    for tokens, targets in rows(data):
        ids = torch.from_numpy(tokens.astype(np.int64))[None]
        with torch.no_grad():
            hidden = model.base_model(input_ids=ids).last_hidden_state
            embedded = model.get_input_embeddings()(ids[:, 1:])
            said = head(embedded, hidden[:, :-1], torch.arange(ids.shape[1] - 1)[None])[0]
            for at in range(len(said) - 1):  # said[at] stands for hidden[at + 1], before at + 2
                if targets[at + 2]:
                    true = hidden[0, at + 1]
                    expected += smooth_l1_loss(said[at], true)
                    expected += cross_entropy(lm_head(said[at]), lm_head(true).softmax(-1))
    with torch.no_grad():
        found = EagleLoss(model)(head, together)
        noisy = EagleLoss(model)(head.train(), together)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)
    assert noisy != found


def test_held_out_figures_are_means_over_all_targets_however_many_rows_a_forward_has(batch):
    model, (data, together) = pico.build_model(), batch
    head, loss = new_head(model), EagleLoss(model)
    with torch.no_grad():
        mean = float(loss(head, together)) / data.targets.sum()
    evaluate = learner(model, head).evaluate
    few, many = (evaluate(data, n, bfloat16=False) for n in (2, len(data)))
    assert few == (pytest.approx(mean, rel=1e-5), many[1])


def test_a_sampled_softmax_estimates_the_full_one(batch, monkeypatch):
    model, (_, together) = pico.build_model(), batch
    with torch.no_grad():
        full = summed_loss(model, together, bfloat16=False)
        assert torch.isclose(sampled.sampled_loss(model, together), full)
        monkeypatch.setattr(sampled, "SAMPLED_FROM", 100)
        monkeypatch.setattr(sampled, "DRAWN", 200)
        torch.manual_seed(0)
        losses = [sampled.sampled_loss(model, together) for _ in range(60)]
    # The estimated normaliser is right on average, its logarithm a little low.
    mean = torch.stack(losses).mean()
    assert 0.9 * full < mean < 1.01 * full
    assert torch.stack(losses).std() > 0


def test_columns_weigh_what_was_drawn_for_all_that_was_not(monkeypatch):
    monkeypatch.setattr(sampled, "SAMPLED_FROM", 100)
    monkeypatch.setattr(sampled, "DRAWN", 50)
    columns = sampled.Columns(torch.tensor([[7, 3], [3, 299]]), 300)
    assert columns.certain.tolist() == [3, 7, 299]
    assert columns.positions(torch.tensor([299, 3])).tolist() == [2, 0]
    assert not set(columns.ids[3:].tolist()) & {3, 7, 299}
    assert float(columns.weight.exp()[3:].sum()) == pytest.approx(297)
    assert not columns.weight[:3].any()


def test_the_models_defaults_for_generate_do_not_change_its_answers(tmp_path):
    folder = pico.make_base(tmp_path / "model")
    stated = {"num_beams": 2, "num_return_sequences": 2, "return_dict_in_generate": True}
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 0} | stated))
    options = HeadOptions(max_new_tokens=8, epochs=1, device="cpu")
    assert train_head(str(folder), corpus(), None, options, work=tmp_path).report.steps
