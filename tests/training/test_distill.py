"""New tokens written out, and a teacher's probabilities of them."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasc.errors import InputError
from tasc.options.command import OptionsError
from tasc.training.core.batch import Sequences, collate, joined
from tasc.training.core.split import Splitter, annealed
from tasc.training.objectives.distill import DistillLoss
from tasc.training.objectives.language import summed_loss
from tasc.training.teacher import teacher_log_probabilities
from tasc.training.train import Start, finetune
from tests import pico
from tests.options import FinetuneOptions
from tests.training.samples import ROWS, corpus

PIECES = {row.new_id: row.base_ids for row in ROWS}


def sequences(*rows: list[int]) -> Sequences:
    """Rows whose first two tokens are the prompt."""
    targets = [np.arange(len(row)) > 1 for row in rows]
    return joined([np.array(row, np.int32) for row in rows], targets)


def split_by_hand(tokens, chosen):
    """The slow twin of Splitter.split for one row: tokens and their owners."""
    found = []
    for owner, (token, wanted) in enumerate(zip(tokens, chosen, strict=True)):
        pieces = PIECES.get(token, (token,)) if wanted else (token,)
        found += [(piece, owner) for piece in pieces]
    return found


ROW = st.lists(st.tuples(st.integers(0, 321), st.booleans()), min_size=2, max_size=12)


@given(st.lists(ROW, min_size=1, max_size=5))
def test_splitting_equals_its_slow_twin(rows):
    data = sequences(*[[token for token, _ in row] for row in rows])
    chosen = np.array([wanted for row in rows for _, wanted in row])
    written, owners = Splitter(ROWS).split(data, chosen)
    starts = data.offsets
    for i, row in enumerate(rows):
        expected = split_by_hand(*zip(*row, strict=True))
        part = slice(written.offsets[i], written.offsets[i + 1])
        assert written.tokens[part].tolist() == [piece for piece, _ in expected]
        assert (owners[part] - starts[i]).tolist() == [owner for _, owner in expected]
        assert written.targets[part].tolist() == [owner > 1 for _, owner in expected]
        assert written.positions[part].tolist() == list(range(len(expected)))


def test_splitting_falls_from_its_share_to_none():
    data = sequences(*[[1, 2] + [320] * 50] * 40)
    of_epoch = annealed(data, ROWS, 0.5, 3.0, seed=7)
    shares = [(of_epoch(epoch).tokens == 320).mean() for epoch in range(3)]
    left = [np.isin(of_epoch(epoch).tokens, (5, 6)).sum() / 2 / 2000 for epoch in range(3)]
    assert left == pytest.approx([0.5, 0.25, 0.0], abs=0.05)
    assert shares[0] < shares[1] < shares[2]
    assert np.array_equal(of_epoch(1).tokens, of_epoch(1).tokens)


def test_a_teacher_gives_a_new_token_the_product_over_its_base_tokens():
    model = pico.build_model().eval()
    rows = [[1, 2, 320, 4, 321], [3, 321, 320, 9]]
    found = teacher_log_probabilities(model, sequences(*rows), ROWS)
    expected = []
    for row in rows:
        for j, token in enumerate(row):
            ids = [p for t in row[:j] for p in PIECES.get(t, (t,))]
            total = 0.0
            for piece in PIECES.get(token, (token,)) if j > 1 else ():
                with torch.no_grad():
                    logits = model(torch.tensor([ids])).logits[0, -1]
                total += float(torch.log_softmax(logits.float(), -1)[piece])
                ids.append(piece)
            expected.append(total)
    assert found == pytest.approx(np.array(expected), abs=1e-4)


def test_without_weight_the_teacher_is_not_heard_and_with_all_of_it_its_odds_are_the_best():
    model = pico.build_model().eval()
    data = sequences([1, 2, 5, 4, 7])
    own = teacher_log_probabilities(model, data, ())
    batch = collate(Sequences(**vars(data) | {"teacher": own}), np.array([0]))
    plain = summed_loss(model, batch, bfloat16=False)
    torch.testing.assert_close(DistillLoss(0.0)(model, batch, bfloat16=False), plain)
    # A student that agrees with its teacher has no gradient left.
    DistillLoss(1.0)(model, batch, bfloat16=False).backward()
    gradients = [p.grad.abs().max() for p in model.parameters() if p.grad is not None]
    assert max(gradients) < 1e-4
    model.zero_grad()
    plain.backward()
    assert max(p.grad.abs().max() for p in model.parameters() if p.grad is not None) > 0.01


OPTIONS = {
    "epochs": 2.0,
    "learning_rate": 1e-2,
    "batch_size": 4,
    "effective_batch": 8,
    "rank": 4,
    "quantize": "none",
    "device": "cpu",
    "checkpoint_steps": 2,
}


@pytest.fixture
def start(base, augmented):
    return Start(str(base), str(augmented), ROWS)


@pytest.mark.parametrize("remedy", ["distill", "split"])
def test_a_training_with_a_remedy_resumes_to_the_same_weights(start, tmp_path, remedy):
    remedies = {
        "distill": {"objective": "distill", "teacher": start.model},
        "split": {"augmented": start.tokenizer, "split_new": 0.5},
    }
    options = FinetuneOptions(**OPTIONS | remedies[remedy])

    def stop(_description, done, total):
        if (done, total) == (3, 6):
            raise KeyboardInterrupt

    whole = finetune(start, corpus(), None, options, work=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        finetune(start, corpus(), None, options, work=tmp_path / "part", progress=stop)
    again = finetune(start, corpus(), None, options, work=tmp_path / "part", resume=True)
    assert again.report.losses == whole.report.losses
    plain = finetune(start, corpus(), None, FinetuneOptions(**OPTIONS), work=tmp_path / "plain")
    assert plain.report.losses != whole.report.losses
    for one, other in pairwise([whole.model.state_dict(), again.model.state_dict()]):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_teacher_of_another_vocabulary_or_with_too_few_positions_is_refused():
    model = pico.build_model()
    with pytest.raises(InputError, match="asked about token 320: name a model"):
        teacher_log_probabilities(model, sequences([1, 2, 320]), ())
    model.config.max_position_embeddings = 4
    with pytest.raises(InputError, match="reads 4 positions, and an example has 5"):
        teacher_log_probabilities(model, sequences([1, 2, 320, 4]), ROWS)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"objective": "distill"}, "needs a teacher"),
        ({"teacher": "m"}, "add objective=distill"),
        ({"split_new": 0.5}, "add augmented"),
        (
            {"augmented": "t", "objective": "distill", "teacher": "m", "split_new": 0.5},
            "leave one out",
        ),
        ({"objective": "distill", "teacher": "m", "draft_head": True}, "objective is for adapters"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given, said):
    with pytest.raises(OptionsError, match=said):
        FinetuneOptions(**given)
