"""A method is one file and one entry: help, report, docs, prediction and decoding follow."""

import sys
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest

from docs.generate import methods
from tasc.decoding import drafters
from tasc.decoding.core.draft import chain
from tasc.decoding.core.protocols import NO_NEEDS, Factory
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters import DRAFTERS, Entry, describe, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.errors import InputError
from tasc.options.bounds import Bounded, within
from tests.decoding.outputs import generate


@dataclass(frozen=True)
class EchoOptions(Bounded):
    """``length``: tokens that are said again."""

    length: int = within(3, 1, 9)


class Echo:
    """Drafts the last tokens once more."""

    needs = NO_NEEDS

    def __init__(self, options: EchoOptions) -> None:
        self.options = options

    def start(self, prompt: np.ndarray) -> None:
        self.sequence = prompt

    def draft(self, max_nodes):
        return chain(self.sequence[-self.options.length :][:max_nodes])

    def observe(self, tokens: np.ndarray) -> None:
        self.sequence = np.append(self.sequence, tokens).astype(np.int32)


def prepare(resources: Resources, options: EchoOptions) -> Factory:
    return lambda: Echo(options)


@pytest.fixture
def echo(monkeypatch):
    """A method of a test's own: a module below the drafters, and an entry."""
    module = ModuleType("tasc.decoding.drafters.echo")
    vars(module)["prepare"] = prepare
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(DRAFTERS, "echo", Entry("echo", "Nobody, Echoes", budget=5))


def test_a_new_entry_is_in_help_docs_and_predictions(echo):
    assert " echo;" in describe().replace(",", "")
    table = methods.drafters("")
    assert "| [`echo`](#echo) |  | 5 | Nobody, Echoes |" in table
    assert "## echo" in table
    assert "| `length` | integer | `3` | between 1 and 9 |" in table
    assert DRAFTERS["echo"].simulates


def test_a_new_entry_decodes_losslessly_under_its_own_label(echo, target):
    method = parse("echo:length=2")
    assert (method.label, method.budget) == ("echo:length=2", 5)
    prompt = np.array([5, 6, 7], np.int32)
    expected = generate(target, Autoregressive(), prompt, max_new_tokens=30)
    drafter = method.prepare(Resources([], 0))()
    found = generate(target, drafter, prompt, max_new_tokens=30, budget=method.budget)
    assert found.tokens.tolist() == expected.tokens.tolist()
    assert sum(found.drafted) > 0


def test_help_of_the_command_is_made_of_the_table():
    from tasc.benchmark.options import BenchOptions

    assert BenchOptions.model_fields["methods"].description == drafters.describe()
    for name in DRAFTERS:
        assert f"{name}," in describe().replace(";", ",")


@pytest.mark.parametrize("name", DRAFTERS)
def test_every_entry_is_complete(name):
    entry = DRAFTERS[name]
    assert callable(entry.prepare)
    assert entry.needs in methods.NEEDS
    assert entry.paper
    made = entry.options(**entry.preset)
    assert parse(name).options == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("magic", "unknown method 'magic': choose from ar, grammar, tasc-spec"),
        ("ar:budget=3", "unknown option 'budget'; options: none"),
        ("tasc-spec:gamma=3", "unknown option 'gamma'; options: budget, n_max"),
        ("tasc-spec:n_max=x", "n_max must be int, got 'x'"),
        ("tasc-spec:n_max=16", "n_max must lie between 1 and 15, got 16"),
        ("tasc-spec:lambda=2", "lambda must lie between 0 and 1, got 2.0"),
        ("tasc-spec:budget=-1", "budget must lie between 0 and 1,024, got -1"),
        ("tasc-spec:budget=99999999", "budget must lie between 0 and 1,024, got 99999999"),
        ("tasc-spec:discount=1", "discount"),
        *((f"tasc-spec:strength={x}", "strength must lie between 0") for x in ("-1", "nan", "inf")),
        ("tasc-spec:corpus=false,prompt=false", "corpus=false and prompt=false leave no source"),
        ("tasc-spec:adapt=maybe", "adapt"),
        ("prompt-lookup:n_max=0", "n_max must lie between 1 and"),
        ("ngram-trie:n=3,prefix=3", "1 ≤ prefix < n, got 3 and 3"),
        ("ngrammys:k=0", "k must lie between 1 and"),
        ("suffix:longest=64", "longest must lie between 1 and 63, got 64"),
        ("suffix:min_probability=1", "min_probability"),
        ("eagle:depth=0", "depth must lie between 1 and 64, got 0"),
        ("microspec:window=0", "window must lie between 1 and 262,144, got 0"),
        ("microspec:context=false,k_ver=0", "k_ver=1 or more"),
        ("microspec:context=false,extension=false", "k_ver=1 or more"),
        ("slem:lookahead=-1", "lookahead must lie between 0 and"),
        ("tli:confidence=2", "confidence must lie between 0 and 1, got 2.0"),
        ("slrs:floor=1", "floor"),
        ("slrs:nodes=-1", "nodes must lie between 0 and"),
    ],
)
def test_a_wrong_method_is_refused_with_what_is_allowed(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)


WITH_HEAD = [name for name, entry in DRAFTERS.items() if entry.needs in ("head", "either")]


@pytest.mark.parametrize("name", WITH_HEAD)
def test_a_method_with_a_head_says_how_to_make_one(name):
    with pytest.raises(InputError, match=f"{name}.*tasc finetune --draft-head"):
        drafters.check([parse(name)], head=False, draft=DRAFTERS[name].needs == "head")


def test_mix_takes_a_head_or_a_small_model_and_is_the_default_with_a_head():
    from tasc.benchmark.options import BenchOptions

    drafters.check([parse("mix")], head=True, draft=False)
    drafters.check([parse("mix")], head=False, draft=True)
    given = {"source": {"path": "builtin:stdlib-tokens"}, "models": ("m",)}
    assert BenchOptions(**given).methods == ("ar", "tasc-spec")
    assert BenchOptions(**given, draft_head="h").methods == ("ar", "mix")
    assert BenchOptions(**given, draft_head="h", methods=("eagle",)).methods == ("eagle",)
