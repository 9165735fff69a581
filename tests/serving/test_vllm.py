"""The class that vLLM loads, on a stub of vLLM's configuration."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.ngram.index import build_index, indexed_outputs, save_index
from tasc.decoding.drafters.ngram.options import Counts
from tasc.errors import InputError
from tasc.serving.drafts.proposer import ChainProposer, Sizes
from tasc.serving.vllm import ProposerOptions, TascProposer, chain_factory
from tasc.tokenizer.loaded import load_tokenizer
from tests.pico import TEXTS, make_tokenizer
from tests.serving.engine import Engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tokenizer, and two indexes of it: all texts, and the last of them."""
    top = tmp_path_factory.mktemp("served")
    tokenizer = load_tokenizer(str(make_tokenizer(top / "model")))
    for name, texts in (("all", TEXTS), ("last", TEXTS[-1:])):
        (top / name).mkdir()
        outputs = tokenizer.encode(texts).split()
        save_index(build_index(outputs, tokenizer.eos_id, Counts()), tokenizer, top / name)
    return top


def configured(folder, tasc, tokens=8):
    return SimpleNamespace(
        additional_config=None if tasc is None else {"tasc": tasc, "other": 1},
        model_config=SimpleNamespace(tokenizer=str(folder / "model"), max_model_len=400),
        speculative_config=SimpleNamespace(num_speculative_tokens=tokens),
        scheduler_config=SimpleNamespace(max_num_seqs=4),
    )


def served(folder, tasc):
    """Serve the texts and return vLLM's counts of drafts, drafted and accepted tokens."""
    made = TascProposer(configured(folder, tasc))
    made.load_model("target", kind=1)
    tokenizer = load_tokenizer(str(folder / "model"))

    class Called:
        def propose(self, new, lengths, tokens):
            return made.propose(new, np.array([*lengths, 0], np.int32), tokens, slot_mappings=None)

    engine = Engine(Called(), 2)
    prompts = tokenizer.encode(["say it again\n"] * len(TEXTS)).split()
    outputs = tokenizer.encode(TEXTS).split()
    engine.run((p, [*o, tokenizer.eos_id]) for p, o in zip(prompts, outputs, strict=True))
    assert made.proposer.sizes == Sizes(8, 400, 8, 320)
    return engine.counts


@pytest.mark.parametrize("kind", ["is_hybrid", "has_inner_state"])
def test_a_model_with_a_recurrent_state_is_refused(folder, kind):
    config = configured(folder, None)
    vars(config.model_config).update({kind: True, "model": "LiquidAI/LFM2-350M"})
    with pytest.raises(InputError, match=r"LFM2-350M has .* recurrent state.*39273") as caught:
        TascProposer(config)
    assert "\n" not in str(caught.value)


def test_indexes_are_read_as_they_are_named(folder):
    nothing = served(folder, None)
    one = served(folder, {"index": str(folder / "all")})
    assert one.accepted > 60 > nothing.accepted
    both = {"all": str(folder / "all"), "last": str(folder / "last")}
    assert served(folder, {"index": both}).accepted > 60
    last = served(folder, {"index": both, "use": ["last"]})
    assert one.accepted > last.accepted
    suffix = served(folder, {"index": str(folder / "all"), "method": "suffix", "guard": False})
    assert suffix.accepted > 60


def test_the_outputs_of_an_index_are_those_it_was_made_from(folder):
    tokenizer = load_tokenizer(str(folder / "model"))
    outputs = [*tokenizer.encode(TEXTS).split(), np.empty(0, np.int32)]
    for mark in (False, True):
        index = build_index(outputs, tokenizer.eos_id, Counts(mark=mark, p_min=2))
        assert [o.tolist() for o in indexed_outputs(index)] == [o.tolist() for o in outputs]


def test_chains_have_one_child_a_node(folder):
    tokenizer = load_tokenizer(str(folder / "model"))
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
        ({"cost": {"1": 0.1}}, "two sizes or more"),
        ({"cost": -1}, "cost"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(folder, tasc, message):
    with pytest.raises(InputError, match=message) as caught:
        TascProposer(configured(folder, tasc))
    assert "\n" not in str(caught.value)


def test_counts_of_an_index_and_a_method_must_agree(folder):
    with pytest.raises(InputError, match="give the method the index's values"):
        TascProposer(
            configured(folder, {"index": str(folder / "all"), "method": "tasc-spec:n_max=3"})
        )


def test_a_guard_stops_what_is_never_accepted(folder):
    eos = load_tokenizer(str(folder / "model")).eos_id
    prompt = np.array([7, 8, 9] * 20, np.int32)
    output = np.random.default_rng(0).integers(10, 300, 300)
    counts = []
    for cost in (None, 0.1):
        guard = {"guard": False} if cost is None else {"cost": cost}
        made = TascProposer(configured(folder, {"method": "tasc-spec-paper", **guard}))
        engine = Engine(made.proposer)
        engine.run([(prompt, [*output, eos])] * 4)
        counts.append(engine.counts)
    assert counts[1].drafted < 0.2 * counts[0].drafted


def test_the_engine_is_spared_what_training_needs():
    heavy = "torch transformers peft datasets bitsandbytes accelerate typer rich matplotlib scipy"
    code = (
        "import sys, tasc.serving.vllm; "
        f"loaded = set('{heavy}'.split()) & {{name.split('.')[0] for name in sys.modules}}; "
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_prompts_of_other_layouts_are_read(folder):
    """An engine may hold its tokens in 64 bits."""
    tokenizer = load_tokenizer(str(folder / "model"))
    factory = parse("prompt-lookup").prepare(Resources([], tokenizer.eos_id))
    made = ChainProposer(factory, tokenizer.eos_id, Sizes(2, 40, 4))
    tokens = np.array([[5, 6, 7, 5, 6, 0]], np.int64)
    assert made.propose([[6]], [5], tokens) == [[7, 5]]


@pytest.mark.parametrize("strange", [320, 2**31 - 1, -1])
def test_no_draft_has_an_id_outside_of_the_vocabulary(folder, strange):
    """Engines have ids of their own for images and padding."""
    made = TascProposer(configured(folder, {"method": "prompt-lookup", "guard": False}))
    tokens = np.array([[5, 6, 7, strange, 8, 5, 6, 0]], np.int32)
    assert made.propose([[6]], np.array([7], np.int32), tokens) == [[7]]
    tokens = np.array([[5, 6, 7, 8, 9, 5, 6, 0]], np.int32)
    assert made.propose([[6]], np.array([7], np.int32), tokens) == [[7, 8, 9, 5, 6]]


CUT = """
import sys, time
import numpy as np
from tests.serving.test_vllm import configured, TascProposer
from pathlib import Path
folder = Path(sys.argv[1])
made = TascProposer(configured(folder, {"index": str(folder / "large"), "guard": False}))
file = folder / "large" / "index.tasc"
content = file.read_bytes()
if sys.argv[2] == "cut":
    file.open("r+b").truncate(200)
else:
    file.open("r+b").truncate(0)
    file.open("r+b").write(content[:300])
rng = np.random.default_rng(0)
for i in range(200):
    tokens = rng.integers(1, 300, (1, 20)).astype(np.int32)
    made.propose([[int(tokens[0, 9])]], np.array([10], np.int32), tokens)
print("alive")
"""


@pytest.mark.parametrize("how", ["cut", "overwritten"])
def test_an_engine_survives_an_index_file_that_shrinks(folder, how):
    tokenizer = load_tokenizer(str(folder / "model"))
    outputs = [np.random.default_rng(i).integers(1, 300, 200) for i in range(200)]
    (folder / "large").mkdir(exist_ok=True)
    save_index(build_index(outputs, tokenizer.eos_id, Counts()), tokenizer, folder / "large")
    command = [sys.executable, "-c", CUT, str(folder), how]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "alive\n"), ran.stderr
