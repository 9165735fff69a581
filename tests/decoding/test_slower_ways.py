"""Where a release of transformers breaks the fastest way to decode, a slower one is right."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import Qwen2ForCausalLM

import tasc
from tasc.errors import UnavailableError
from tasc.models import attention, proof
from tasc.models.inputs import step_inputs
from tasc.models.layers import FusedDecoder, is_fused
from tasc.models.packed import PackedLinear, is_packed, pack
from tasc.models.targets import fastest
from tasc.models.targets.fastest import target_for
from tests.cli import tasc as run
from tests.models.test_packed import needs_packing
from tests.models.test_proof import Shifted, decoder
from tests.pico import build_model, continued, make_model, make_tokenizer

PROMPTS = [np.arange(3, 3 + n, dtype=np.int32) for n in (2, 9, 5)]
NEW_TOKENS = 16
METHODS = ["ar", "tasc-spec:min_probability=0", "tasc-spec:width=2,budget=9,min_probability=0"]
FUSED, PACKED = FusedDecoder.forward, PackedLinear.forward


@pytest.fixture(autouse=True)
def nothing_is_known(own_cache, monkeypatch):
    monkeypatch.setattr(proof, "_PROVED", {})
    monkeypatch.setattr(proof, "_REFUSED", {})
    monkeypatch.setattr(fastest, "_LOGGED", set())


def renamed(_self, *_args, **_kwargs):
    raise TypeError("forward() got multiple values for argument 'cache'")


def off(own):
    """Return ``own`` with other outputs, except where torch multiplies."""

    def other(self, *args, **kwargs):
        out = own(self, *args, **kwargs)
        if isinstance(out, torch.Tensor):
            return out if self.plain else out + out.roll(1, -1)
        return replace(out, last_hidden_state=out.last_hidden_state.flip(-1))

    return other


def rising(*given, **options):
    """Return the inputs of a step, with positions that rise by one in a tree, too."""
    ids, positions, mask = step_inputs(*given, **options)
    return ids, positions[:, :1] + np.arange(positions.shape[1]), mask


def break_fused(monkeypatch, broken):
    def forward(self, *args, **kwargs):
        own = self.attention.config._attn_implementation != attention.NAME
        return (self.plain if own else broken.__get__(self))(*args, **kwargs)

    monkeypatch.setattr(FusedDecoder, "forward", forward)


def break_packed(monkeypatch, broken):
    monkeypatch.setattr(PackedLinear, "forward", broken)


def break_trees(monkeypatch):
    monkeypatch.setattr("tasc.models.target.step_inputs", rising)


BREAKS = {
    "fused raises": lambda patch: break_fused(patch, renamed),
    "fused is off": lambda patch: break_fused(patch, off(FUSED)),
    "fused cannot be made": lambda patch: patch.setattr(FusedDecoder, "__init__", renamed),
    "packed raises": lambda patch: break_packed(patch, renamed),
    "packed is off": lambda patch: break_packed(patch, off(PACKED)),
    "trees are off": break_trees,
    "trees and packed are off": lambda patch: (
        break_trees(patch),
        break_packed(patch, off(PACKED)),
    ),
}
LOSSES = {
    "fused raises": "its layers run one by one",
    "fused is off": "its layers run one by one",
    "fused cannot be made": "its layers run one by one",
    "packed raises": "its layers are not packed",
    "packed is off": "its layers are not packed",
    "trees are off": "its drafts are chains",
    "trees and packed are off": "its layers are not packed and its drafts are chains",
}


def decoded(model, tokenizer, expected):
    """Return the outputs of all methods, alone and in a batch, with drafts of the outputs."""
    return [
        [
            done.tokens.tolist()
            for done in tasc.generate(
                model,
                tokenizer,
                PROMPTS,
                method,
                corpus=expected,
                max_new_tokens=NEW_TOKENS,
                batch_size=size,
            )
        ]
        for method in METHODS
        for size in (1, 3)
    ]


@needs_packing
@pytest.mark.parametrize("broken", BREAKS)
def test_outputs_are_those_of_transformers(broken, fast_tokenizer, monkeypatch, caplog):
    model = build_model("llama", tied=False)
    pack(model)
    with monkeypatch.context() as unbroken:
        unbroken.setattr(PackedLinear, "forward", lambda self, x: plain(self, x))
        expected = [continued(model, prompt, NEW_TOKENS) for prompt in PROMPTS]
    BREAKS[broken](monkeypatch)
    for outputs in decoded(model, fast_tokenizer, expected):
        assert outputs == [tokens.tolist() for tokens in expected]
    assert_one_line(caplog, broken, "outputs are the same")
    assert is_packed(model) == ("packed" not in broken)
    assert not is_fused(model) or "packed" in broken


@needs_packing
@pytest.mark.parametrize("broken", BREAKS)
def test_outputs_in_8_bits_are_those_of_plain_decoding(broken, fast_tokenizer, monkeypatch, caplog):
    model = build_model("llama", tied=False)
    pack(model, int8=True)
    BREAKS[broken](monkeypatch)
    plainly = tasc.generate(model, fast_tokenizer, PROMPTS, "ar", max_new_tokens=NEW_TOKENS)
    expected = [done.tokens for done in plainly]
    for outputs in decoded(model, fast_tokenizer, expected):
        assert outputs == [tokens.tolist() for tokens in expected]
    unpacked = "packed" in broken
    what = "outputs are those of unrounded inputs" if unpacked else "outputs are the same"
    assert_one_line(caplog, broken, what)
    assert is_packed(model) != unpacked
    if unpacked:
        continuations = [continued(model, prompt, NEW_TOKENS) for prompt in PROMPTS]
        assert [each.tolist() for each in continuations] == [each.tolist() for each in expected]


def plain(layer, x):
    """Multiply as torch does, independently of the layer's own products."""
    bias = None if layer.bias is None else layer.bias.to(layer.dtype)
    return torch.nn.functional.linear(x, layer.weight, bias)


def assert_one_line(caplog, broken, outputs):
    (line,) = caplog.messages
    assert f", so {LOSSES[broken]}: {outputs}, decoding is slower" in line
    assert "LlamaForCausalLM" in line
    assert "\n" not in line


@needs_packing
def test_nothing_is_lost_or_logged_where_nothing_is_broken(caplog):
    model = build_model("llama")
    pack(model)
    target = target_for(model)
    assert (is_packed(model), is_fused(model), target.chains_only) == (True, True, False)
    assert not caplog.messages


@pytest.mark.parametrize("kind", ["bart", "mbart", "pegasus", "marian", "blenderbot"])
def test_a_model_that_counts_positions_itself_drafts_chains(kind, fast_tokenizer, caplog):
    model = decoder(kind)
    expected = [continued(model, prompt, NEW_TOKENS) for prompt in PROMPTS]
    for outputs in decoded(model, fast_tokenizer, expected):
        assert outputs == [tokens.tolist() for tokens in expected]
    assert "so its drafts are chains" in caplog.text
    assert target_for(model).chains_only


def test_a_model_that_reads_rising_positions_only_drafts_chains(fast_tokenizer):
    model = Shifted(build_model("qwen2").config).eval()
    model.load_state_dict(build_model("qwen2").state_dict())
    expected = [continued(model, prompt, NEW_TOKENS) for prompt in PROMPTS]
    for outputs in decoded(model, fast_tokenizer, expected):
        assert outputs == [tokens.tolist() for tokens in expected]


def test_what_nothing_helps_is_refused_in_one_line_with_the_first_reason(monkeypatch):
    def forward(self, input_ids=None, use_cache=True):
        return Qwen2ForCausalLM.forward(self, input_ids=input_ids, use_cache=use_cache)

    strict = type("Strict", (Qwen2ForCausalLM,), {"forward": forward})
    model = strict(build_model("qwen2").config)
    for _ in range(2):
        with pytest.raises(UnavailableError, match=r"decode it with transformers$") as caught:
            target_for(model)
        assert "\n" not in str(caught.value)


@needs_packing
def test_tasc_bench_ends_well_with_one_line_of_warning(tmp_path, monkeypatch, capsys):
    folder = make_tokenizer(make_model(tmp_path / "model", "llama"))
    break_fused(monkeypatch, renamed)
    options = ("--limit", 2, "--max-new-tokens", 4, "--threads", 1, "--output", tmp_path / "bench")
    methods = ("--method", "ar", "--method", "prompt", "--model", folder)
    code, out, err = run(capsys, "bench", "builtin:stdlib-tokens", *methods, *options)
    assert code == 0, err
    assert "2/2, bitwise" in out
    lines = [line for line in err.splitlines() if line.startswith("warning: LlamaForCausalLM")]
    assert len(lines) == 1
    assert "Traceback" not in err
