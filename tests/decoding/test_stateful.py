"""Models that score no trees, or not everywhere: rejected drafts leave no trace in their states."""

import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.decoding.core.draft import Draft, ProposalProbs, chain
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.verify import verifier
from tasc.errors import InputError, UnavailableError
from tasc.models.delta_rule import delta_rule
from tasc.models.target import Target
from tasc.models.targets.fastest import target_for
from tests.decoding.outputs import lists
from tests.decoding.scripted import Scripted, floats, ints
from tests.pico import HYBRIDS, build_model, continued

NONE = np.empty(0, np.int32)
TREE = ints(5, 6, 7, 8, 9), ints(-1, -1, 0, 1, 3)


@pytest.fixture(scope="module", params=HYBRIDS)
def target(request):
    return target_for(build_model(request.param, tied=False), graphs="off")


def after(target, prompt, tokens):
    """Return the logits after ``prompt`` and ``tokens``, read one by one."""
    target.prefill(prompt, 40)
    for token in tokens:
        logits = target.score([token], [(NONE, NONE)])
        target.keep([()])
    return logits[0, 0]


@settings(max_examples=3, deadline=None)
@given(st.data())
def test_any_accepted_parts_of_drafts_give_the_states_of_plain_decoding(target, data):
    prompt = np.arange(5, 5 + data.draw(st.integers(1, 9)), dtype=np.int32)
    target.prefill(prompt, 40)
    kept = [7]
    for _ in range(3):
        draft = data.draw(st.lists(st.integers(1, 319), max_size=4))
        accepted = data.draw(st.integers(0, len(draft)))
        target.score([kept[-1]], [(ints(*draft), chain(ints(*draft)).parents)])
        target.keep([range(accepted)])
        kept += [*draft[:accepted], data.draw(st.integers(1, 319))]
    logits = target.score([kept[-1]], [(NONE, NONE)])[0, 0].clone()
    torch.testing.assert_close(logits, after(target, prompt, kept), rtol=1e-3, atol=1e-3)


def test_greedy_output_equals_transformers_with_wrong_and_right_drafts(target):
    prompts = [np.arange(3, 3 + n, dtype=np.int32) for n in (1, 4, 11)]
    with target.untouched():
        expected = [continued(target.model, prompt, 12, eos_token_id=0) for prompt in prompts]
    again = chain(expected[0][:3])  # right after the first prompt, wrong mostly
    for size in (1, 2):
        requests = [Request(p, lambda: Scripted(again)) for p in prompts]
        done = generate_all(target, requests, max_new_tokens=12, end_ids=(0,), batch_size=size)
        assert lists(done) == lists(expected)


def test_the_gated_delta_rule_over_a_draft_equals_transformers_token_by_token():
    from transformers.models.qwen3_5.modeling_qwen3_5 import torch_recurrent_gated_delta_rule

    def drawn(*shape):
        return torch.randn(1, *shape, generator=torch.Generator().manual_seed(shape[-1]))

    args = drawn(6, 2, 16), drawn(6, 2, 16).flip(1), drawn(6, 4, 24)
    decay, rate, state = -drawn(6, 4).exp(), drawn(6, 4).sigmoid(), drawn(4, 16, 24)
    outputs, states = delta_rule(*args, g=decay, beta=rate, initial_state=state)
    for count in range(1, 7):
        queries, keys, values, g, beta = (x[:, :count] for x in (*args, decay, rate))
        theirs, after = torch_recurrent_gated_delta_rule(
            queries.repeat_interleave(2, dim=2),  # as transformers 5.16 wants them
            keys.repeat_interleave(2, dim=2),
            values,
            g=g,
            beta=beta,
            initial_state=state,
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )
        torch.testing.assert_close(outputs[:, :count], theirs)
        torch.testing.assert_close(states.after(count), after)


@pytest.mark.parametrize("kind", HYBRIDS)
def test_a_model_with_a_state_is_no_target_of_trees(kind):
    with pytest.raises(UnavailableError, match="attention in all layers"):
        Target(build_model(kind))


def test_a_model_that_keeps_its_attention_is_no_target_of_trees(monkeypatch):
    model = build_model("qwen2")
    monkeypatch.setattr(type(model), "set_attn_implementation", lambda *_: None)
    with pytest.raises(UnavailableError, match="decode it with transformers"):
        Target(model)


FACTORS = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
LONG_ROPE = {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4} | FACTORS}


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("llama4_text", {"num_local_experts": 2, "attention_chunk_size": 32, "head_dim": 16}),
        ("phi3", LONG_ROPE | {"original_max_position_embeddings": 32}),
    ],
)
def test_models_whose_keys_change_with_the_length_are_used_below_it_only(kind, own):
    target = Target(build_model(kind, **own))
    target.prefill(np.ones(20, np.int32), 12)
    with pytest.raises(InputError, match="32 positions"):
        target.prefill(np.ones(21, np.int32), 12)


def test_a_tree_is_refused(target):
    target.prefill(ints(1, 2), 10)
    with pytest.raises(InputError, match="chains only"):
        target.score([3], [TREE])


def test_the_loop_scores_the_best_chain_of_a_tree(target):
    drafter = Scripted(Draft(*TREE))
    done = generate_all(target, [Request(ints(1, 2, 3), lambda: drafter)], max_new_tokens=9)
    asked = drafter.asked[target.drafts_first :]  # those after the prefill
    whole = [n for n, most in zip(done[0].drafted, asked, strict=True) if most >= 5]
    assert set(whole) == {3}, "the longest path has three nodes"


def test_the_best_chain_has_the_most_expected_tokens():
    assert Draft(*TREE).best_chain().tokens.tolist() == [6, 8, 9]
    likely = Draft(*TREE, probabilities=floats(0.9, 0.1, 0.8, 0.1, 0.1)).best_chain()
    assert likely.tokens.tolist() == [5, 7]
    assert likely.probabilities.tolist() == floats(0.9, 0.8).tolist()
    assert likely.parents.tolist() == [-1, 0]


def test_the_chain_of_drawn_nodes_does_not_depend_on_their_tokens():
    drawn = ProposalProbs(torch.full((5, 320), 1 / 320), ints(0, 1, 2, -1, 3, -1))
    first = Draft(*TREE, drawn).best_chain()
    assert first.tokens.tolist() == [5, 7]
    assert isinstance(first.q, ProposalProbs)
    assert first.q.of.tolist() == [0, 1, -1]


@pytest.mark.parametrize("kind", ["lfm2", "qwen3_5_text", "falcon_h1"])
def test_sampled_tokens_have_the_distribution_of_the_model(kind):
    """Compare the second and third tokens with and without drafts, by total variation.

    TASC_SEQUENCES=20000 draws that many outputs, which narrows the bound.
    """
    target = target_for(build_model(kind, tied=False), graphs="off")
    runs = int(os.environ.get("TASC_SEQUENCES", "100"))

    def pairs(drafter, seed):
        requests = [
            Request(ints(1, 2, 3), drafter, verifier("rejection", Sampling(1.0, top_k=2, seed=s)))
            for s in range(seed * runs, (seed + 1) * runs)
        ]
        return [tuple(g.tokens[:3]) for g in generate_all(target, requests, max_new_tokens=4)]

    plain, other = (pairs(Autoregressive, seed) for seed in (0, 1))
    likely = max(set(plain), key=plain.count)
    drafted = pairs(lambda: Scripted(chain(ints(*likely[1:]))), 2)

    def distance(one, two):
        return sum(abs(one.count(x) - two.count(x)) for x in {*one, *two}) / (2 * runs)

    assert distance(plain, drafted) < distance(plain, other) + 1.2 / runs**0.5


def test_defaults_for_generate_do_not_count_when_states_are_proved():
    model = build_model("lfm2", hidden=48, rms_norm_eps=3e-5)  # a shape that no other test proved
    model.generation_config.update(repetition_penalty=2.0, num_beams=2)
    target_for(model, graphs="off")
    assert model.generation_config.num_beams == 2
