"""Labels in one forward: equal to a forward per label, with ties, parts, batches and states."""

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import tasc
from tasc.decoding import choices
from tasc.decoding.choices import Labels, calibration, trie_parts
from tasc.errors import InputError
from tasc.models.static import StaticTarget
from tasc.models.targets.fastest import target_for
from tests.decoding.outputs import lists
from tests.decoding.scripted import ints, paths
from tests.pico import build_model, build_windowed

END = 0
LABELS = [
    *(ints(7), ints(7, 8), ints(7, 8, 9), ints(5, 6), ints(5, 6, 11, 12, 13)),
    *(ints(5), ints(300, 2), ints(9, 9, 9)),
]
PROMPTS = [ints(3), ints(4, 19, 250, 77, 31, 8, 90, 14, 2, 61), ints(12, 13, 14)]


@torch.inference_mode()
def one_by_one(model, prompt, labels, end=END):
    """Score by the definition: a forward per label, the log-probabilities of its tokens summed."""
    scores, begin = [], len(prompt)
    for label in labels:
        ids = torch.from_numpy(np.concatenate([prompt, label, [end]]).astype(np.int64))
        logits = model(ids[None]).logits[0].float().log_softmax(-1)
        scores.append(float(logits[begin - 1 : -1].gather(1, ids[begin:, None]).double().sum()))
    return np.array(scores)


def check(model, labels=LABELS, prompts=PROMPTS, tolerance=1e-4):
    expected = np.stack([one_by_one(model, prompt, labels) for prompt in prompts])
    target = target_for(model)
    scorer = Labels(labels, END)
    batch, _ = scorer.scores(target, prompts)
    np.testing.assert_allclose(batch, expected, atol=tolerance)
    for prompt, row in zip(prompts, expected, strict=True):
        np.testing.assert_allclose(scorer.scores(target, [prompt])[0][0], row, atol=tolerance)
    chosen = scorer.choose(target, prompts, batch_size=2)
    pruned = scorer.choose_pruned(target, prompts)
    assert lists(pruned) == lists(chosen) == [[*labels[i], END] for i in batch.argmax(1)]
    for made, bound, row in zip(chosen, pruned, batch, strict=True):
        assert made.probability == pytest.approx(softmax(row).max(), abs=1e-3)
        assert bound.probability <= made.probability + 1e-3


@pytest.mark.parametrize(
    "architecture",
    # The last two have a state and score label by label.
    ["qwen2", "llama", "gemma2", "gpt2", "deepseek_v2", "lfm2", "mamba"],
)
def test_scores_are_those_of_one_forward_per_label(architecture):
    check(build_model(architecture))


def test_windows_hide_what_is_far_from_a_node():
    fit = [label % 64 for label in LABELS]
    check(build_windowed(), fit, [prompt % 64 for prompt in PROMPTS])


def test_scores_in_bfloat16_differ_by_rounding_only():
    check(build_model("llama").to(torch.bfloat16), tolerance=0.3)


def test_parts_and_long_prompts_give_the_same_scores(monkeypatch):
    model = build_model("qwen2")
    monkeypatch.setattr(choices, "_MOST_NODES", 4)
    assert len(list(trie_parts(LABELS, 4))) > 3
    check(model)
    monkeypatch.setattr(choices, "LONGEST_CHAIN", 2)
    check(model)
    static = StaticTarget(model, graphs=False)
    few = Labels(LABELS[:3], END)
    for _ in range(2):  # the second time, the cache is that of the first
        expected = one_by_one(model, PROMPTS[1], LABELS[:3])
        np.testing.assert_allclose(few.scores(static, PROMPTS[1:2])[0][0], expected, atol=1e-4)


def test_tokens_that_all_prompts_share_are_read_once(monkeypatch):
    model, begin = build_model("llama"), np.arange(20, 30, dtype=np.int32)
    prompts = [np.concatenate([begin, prompt]) for prompt in PROMPTS]
    expected = np.stack([one_by_one(model, prompt, LABELS) for prompt in prompts])
    for most, longest in ((1024, 512), (4, 512), (1024, 2)):
        monkeypatch.setattr(choices, "_MOST_NODES", most)
        monkeypatch.setattr(choices, "LONGEST_CHAIN", longest)
        target, scorer = target_for(model), Labels(LABELS, END)
        target.share(begin)
        with mock.patch.object(target, "forward", wraps=target.forward) as forward:
            scores, _ = scorer.scores(target, prompts)
        np.testing.assert_allclose(scores, expected, atol=1e-4)
        if longest > 2:  # else one prompt without its last token has no more than the shared ones
            assert all(int(call.args[2].min()) >= len(begin) for call in forward.call_args_list)
        others = scorer.scores(target, PROMPTS)[0]  # which do not begin so
        np.testing.assert_allclose(others[0], one_by_one(model, PROMPTS[0], LABELS), atol=1e-4)


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=5), min_size=1, max_size=30), st.integers(0, 9)
)
def test_parts_hold_every_label_once_and_share_prefixes(ids, most):
    labels = [np.array(label, np.int32) for label in ids]
    seen = {}
    for part in trie_parts(labels, most):
        assert len(part.tree) <= most or len(part.labels) == 1
        prefixes = [*paths(part.tree), ()]  # the end of an empty label is -1
        assert len({*prefixes}) == len(prefixes), "a prefix is there twice"
        for label, end in zip(part.labels, part.ends, strict=True):
            seen[int(label)] = [*prefixes[int(end)]]
    assert seen == dict(enumerate(ids))


def test_equal_scores_go_to_the_label_that_comes_first():
    twice = [LABELS[3], LABELS[0], LABELS[0], LABELS[3]]
    target = target_for(build_model("qwen2"))
    (chosen,) = Labels(twice, END).choose(target, PROMPTS[:1])
    scores, _ = Labels(twice, END).scores(target, PROMPTS[:1])
    assert scores[0, 1] == scores[0, 2]
    assert scores[0, 0] == scores[0, 3]
    assert chosen.probability == pytest.approx(softmax(scores[0])[int(scores[0].argmax())])
    assert int(scores[0].argmax()) in (0, 1)


def test_the_library_chooses_with_softmax(base):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(base).eval()
    tokenizer = AutoTokenizer.from_pretrained(base)
    names, prompts = ["alarm_set", "alarm_off", "play_music"], ["wake me up\n", "play jazz\n"]
    found = tasc.choose(model, tokenizer, prompts, names, batch_size=2)
    for prompt, choice in zip(prompts, found, strict=True):
        ids = [np.array(tokenizer(t)["input_ids"], np.int32) for t in (prompt, *names)]
        expected = softmax(one_by_one(model, ids[0], ids[1:]))
        np.testing.assert_allclose(list(choice.probabilities.values()), expected, atol=1e-5)
        assert list(choice.probabilities) == names
        assert choice.label == names[int(expected.argmax())]
    for wrong, message in (([], "no labels"), (["a", "a"], "twice")):
        with pytest.raises(InputError, match=message):
            tasc.choose(model, tokenizer, ["x"], wrong)
    with pytest.raises(InputError, match="prompts is a single text"):
        tasc.choose(model, tokenizer, "xy", ["a"])


def test_calibration_divides_by_the_mean_and_keeps_the_shares():
    scores = np.log([[0.8, 0.2], [0.6, 0.4]]) - 3.0  # probabilities among the labels
    offsets = calibration(scores, np.array([0.5, 0.5]))
    odds = softmax(scores + offsets, axis=1)
    np.testing.assert_allclose(odds[0, 0] / odds[0, 1], (0.8 / 0.7) / (0.2 / 0.3))
    assert odds.argmax(1).tolist() == [0, 1]
    # Before, the first label won everywhere; a label of most outputs still does.
    often = calibration(scores, np.array([0.9, 0.1]))
    assert (scores + often).argmax(1).tolist() == [0, 0]


def test_calibrated_labels_win_where_their_probability_rises_above_its_mean(monkeypatch):
    rows = {3: np.log([0.8, 0.2]), 4: np.log([0.6, 0.4])}
    monkeypatch.setattr(
        Labels, "scores", lambda _self, _, prompts: (np.stack([rows[p[0]] for p in prompts]), [2])
    )
    plain = Labels([ints(7), ints(8)], END)
    prompts = [ints(3), ints(4)]
    assert lists(plain.choose(None, prompts)) == [[7, END], [7, END]]
    calibrated = plain.calibrated(None, prompts, np.array([0.5, 0.5]))
    for made in (calibrated.choose(None, prompts), calibrated.choose(None, prompts, batch_size=2)):
        assert lists(made) == [[7, END], [8, END]]
        assert made[1].probability == pytest.approx((0.4 / 0.3) / (0.4 / 0.3 + 0.6 / 0.7))
    assert plain.offsets is None
