"""The class that vLLM loads, on a stub of vLLM's configuration."""

import subprocess
import sys

import numpy as np
import pytest

from tasc.decoding.drafters.ngram.index import build_index, indexed_outputs, save_index
from tasc.decoding.drafters.ngram.options import Counts
from tasc.errors import InputError
from tasc.serving.drafts.proposer import Sizes
from tasc.serving.vllm import ProposerOptions, TascProposer, chain_factory
from tests.cli import modules_after
from tests.pico import TEXTS, make_tokenizer
from tests.serving.engine import Engine, configured


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer):
    """A tokenizer, and two indexes of it: all texts, and the last of them."""
    top = tmp_path_factory.mktemp("served")
    make_tokenizer(top / "model")
    for name, texts in (("all", TEXTS), ("last", TEXTS[-1:])):
        (top / name).mkdir()
        outputs = tokenizer.encode(texts).split()
        save_index(build_index(outputs, tokenizer.eos_id, Counts()), tokenizer, top / name)
    return top


def served(folder, tasc):
    """Serve the texts and return how many tokens of drafts are accepted."""
    made = TascProposer(configured(folder / "model", tasc))
    made.load_model("target", kind=1)
    tokenizer = made.tokenizer

    class Called:
        def propose(self, new, lengths, tokens):
            return made.propose(new, np.array([*lengths, 0], np.int32), tokens, slot_mappings=None)

    engine = Engine(Called(), 2)
    prompts = tokenizer.encode(["say it again\n"] * len(TEXTS)).split()
    outputs = tokenizer.encode(TEXTS).split()
    engine.run((p, [*o, tokenizer.eos_id]) for p, o in zip(prompts, outputs, strict=True))
    assert made.proposer.sizes == Sizes(8, 400, 8, 320)
    return engine.counts.accepted


@pytest.mark.parametrize("kind", ["is_hybrid", "has_inner_state"])
def test_a_model_with_a_recurrent_state_is_refused(folder, kind):
    config = configured(folder / "model", None)
    vars(config.model_config).update({kind: True, "model": "LiquidAI/LFM2-350M"})
    with pytest.raises(InputError, match=r"LFM2-350M has .* recurrent state.*39273") as caught:
        TascProposer(config)
    assert "\n" not in str(caught.value)


def test_indexes_are_read_as_they_are_named(folder):
    both = {name: str(folder / name) for name in ("all", "last")}
    one = served(folder, {"index": both["all"]})
    assert one > 60 > served(folder, None)
    assert served(folder, {"index": both}) > 60
    assert one > served(folder, {"index": both, "use": ["last"]})
    assert served(folder, {"index": both["all"], "method": "suffix", "guard": False}) > 60


def test_the_outputs_of_an_index_are_those_it_was_made_from(tokenizer):
    outputs = [*tokenizer.encode(TEXTS).split(), np.empty(0, np.int32)]
    for mark in (False, True):
        index = build_index(outputs, tokenizer.eos_id, Counts(mark=mark, p_min=2))
        assert [o.tolist() for o in indexed_outputs(index)] == [o.tolist() for o in outputs]


def test_chains_have_one_child_a_node(tokenizer):
    for method in ("tasc-spec:width=3", "suffix", "prompt:adapt=true"):
        drafter = chain_factory(ProposerOptions(method=method), tokenizer, [])()
        drafter.start(tokenizer.encode(["play play some play some jazz play some"]).tokens)
        draft = drafter.draft(6)
        assert draft.parents.tolist() == list(range(-1, len(draft) - 1))


@pytest.mark.parametrize(
    ("tasc", "message"),
    [
        ({"methods": "suffix"}, r"additional_config\['tasc'\]: methods: unknown key"),
        ({"index": 3}, "index"),
        ({"index": "nowhere"}, "nowhere holds no index"),
        ({"index": {"a": "nowhere"}, "use": ["b"]}, "no index is called 'b'; indexes: a"),
        ({"use": ["b"]}, "indexes: none"),
        ({"method": "eagle"}, "needs a model, or drafts nothing"),
        ({"method": "ar"}, "drafts nothing"),
        ({"method": "ngrammys"}, "needs a model, or drafts nothing"),
        ({"method": "mine"}, "unknown method 'mine'"),
        *(({"cost": c}, "two sizes or more") for c in ({1: 1}, {1: 0.0, 2: 0.1}, {0: 0.1, 1: 0.2})),
        ({"cost": -1}, "cost"),
        ({"schema": "none.json"}, "no schema file"),
        ({"index": "all", "method": "tasc-spec:n_max=3"}, "give the method the index's values"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(folder, monkeypatch, tasc, message):
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match=message) as caught:
        TascProposer(configured(folder / "model", tasc))
    assert "\n" not in str(caught.value)


def test_a_guard_stops_what_is_never_accepted(folder):
    prompt = np.array([7, 8, 9] * 20, np.int32)
    output = np.random.default_rng(0).integers(10, 300, 300)
    drafted = []
    for guard in ({"guard": False}, {"cost": 0.1}):
        made = TascProposer(configured(folder / "model", {"method": "tasc-spec-paper", **guard}))
        engine = Engine(made.proposer)
        engine.run([(prompt, [*output, made.proposer.end])] * 4)
        drafted.append(engine.counts.drafted)
    assert drafted[1] < 0.2 * drafted[0]


def test_the_engine_is_spared_what_training_needs():
    heavy = "torch transformers peft datasets bitsandbytes accelerate typer rich matplotlib scipy"
    loaded = {name.split(".")[0] for name in modules_after("import tasc.serving.vllm")}
    assert not loaded & {*heavy.split()}


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("strange", [None, 320, 2**31 - 1, -1])
def test_no_draft_has_an_id_outside_of_the_vocabulary(folder, strange, dtype):
    """Engines have ids of their own for images and padding, and may hold tokens in 64 bits."""
    made = TascProposer(configured(folder / "model", {"method": "prompt-lookup", "guard": False}))
    tokens = np.array([[5, 6, 7, strange or 8, 9, 5, 6, 0]], dtype)
    expected = [7] if strange else [7, 8, 9, 5, 6]
    assert made.propose([[6]], np.array([7], np.int32), tokens) == [expected]


CUT = """
import os
import sys
from pathlib import Path
import numpy as np
from tasc.serving.vllm import TascProposer
from tests.serving.engine import configured
folder = Path(sys.argv[1])
made = TascProposer(configured(folder / "model", {"index": str(folder / "large"), "guard": False}))
file = folder / "large" / "index.tasc"
if sys.argv[2] == "cut":
    os.truncate(file, 200)
else:
    file.write_bytes(file.read_bytes()[:300])
rng = np.random.default_rng(0)
for i in range(200):
    tokens = rng.integers(1, 300, (1, 20)).astype(np.int32)
    made.propose([[int(tokens[0, 9])]], np.array([10], np.int32), tokens)
print("alive")
"""


@pytest.mark.parametrize("how", ["cut", "overwritten"])
def test_an_engine_survives_an_index_file_that_shrinks(folder, tokenizer, how):
    outputs = [np.random.default_rng(i).integers(1, 300, 200) for i in range(200)]
    (folder / "large").mkdir(exist_ok=True)
    save_index(build_index(outputs, tokenizer.eos_id, Counts()), tokenizer, folder / "large")
    command = [sys.executable, "-c", CUT, str(folder), how]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "alive\n"), ran.stderr
