import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from tasc.training.core.batch import Batch, collate, encode_examples
from tasc.training.objectives.language import learner, summed_loss, target_logits
from tests import pico
from tests.letters import OUTPUTS, build_writer
from tests.training.samples import rows


@pytest.fixture(scope="module")
def data(tokenizer):
    prompts, outputs = zip(*(text.split("\n") for text in pico.TEXTS), strict=True)
    return encode_examples(tokenizer, [p + "\n" for p in prompts], outputs, 200)


@pytest.mark.parametrize("architecture", pico.ARCHITECTURES)
def test_a_padded_batch_has_the_loss_of_its_rows_one_by_one(data, architecture):
    model = pico.build_model(architecture)
    with torch.no_grad():
        together = summed_loss(model, collate(data, np.arange(len(data))), bfloat16=False)
    alone = torch.tensor(0.0)
    for row, targets in rows(data):
        tokens, wanted = torch.from_numpy(row.astype(np.int64)), torch.from_numpy(targets)[1:]
        with torch.no_grad():
            logits = model(tokens[None]).logits[0, :-1]
        alone += cross_entropy(logits[wanted], tokens[1:][wanted], reduction="sum")
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-3)


def test_targets_are_those_the_mask_names(data):
    _, labels = target_logits(pico.build_model(), collate(data, np.array([2])))
    tokens, targets = rows(data)[2]
    assert labels.tolist() == tokens[targets].tolist()


def test_prompt_tokens_get_no_gradient_from_the_head():
    """The LM head of an untied model moves only through rows that predict a target."""
    model = pico.build_model(tied=False)
    tokens = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8]])
    labels = tokens.clone()
    labels[:, :6] = -100
    summed_loss(model, Batch(tokens, labels, None), bfloat16=False).backward()
    with torch.no_grad():
        hidden = model.model(tokens).last_hidden_state[0]
        probabilities = model.lm_head(hidden[5:7]).softmax(-1)
    probabilities[0, 7] -= 1
    probabilities[1, 8] -= 1
    torch.testing.assert_close(
        model.lm_head.weight.grad, probabilities.T @ hidden[5:7], rtol=1e-3, atol=1e-4
    )


def test_exact_matches_are_those_of_greedy_decoding(data):
    model = pico.build_model()
    exact = 0
    for tokens, targets in rows(data):
        prompt, output = tokens[~targets], tokens[targets]
        exact += pico.continued(model, prompt, len(output)).tolist() == output.tolist()
    assert learner(model).evaluate(data, 2, bfloat16=False)[1] == exact / len(data)


def test_the_loss_of_held_out_rows_is_the_mean_over_all_their_targets(data):
    model = pico.build_model().eval()
    with torch.no_grad():
        whole = summed_loss(model, collate(data, np.arange(len(data))), bfloat16=False)
    loss, _ = learner(model).evaluate(data, 2, bfloat16=False)
    assert loss == pytest.approx(float(whole) / data.targets.sum())


def test_evaluation_counts_a_learnt_row_as_exact_and_keeps_the_mode(tokenizer):
    model = build_writer(tokenizer).train()
    prompts = [f"say {digit}" for digit in OUTPUTS]
    data = encode_examples(tokenizer, prompts * 2, [*OUTPUTS.values(), "J", "JK", "XYZ"], 100)
    loss, exact = learner(model).evaluate(data, 3, bfloat16=False)
    assert exact == 0.5
    assert model.training
    right = encode_examples(tokenizer, prompts, [*OUTPUTS.values()], 100)
    assert learner(model).evaluate(right, 3, bfloat16=False) == (pytest.approx(0, abs=1e-3), 1.0)
    assert loss > 1
