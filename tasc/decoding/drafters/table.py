"""The table of methods. To add a method, write one file and one entry here."""

import inspect
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, Literal

from tasc.decoding.core.protocols import Factory
from tasc.decoding.core.resources import Resources

DEFAULT_BUDGET = 12
ADAPTIVE = 64  # upper limit of ``budget=auto``
# A method's needs beyond the tokens of prompt, output and corpus: "logits" of every step, the
# "model" before the first one, a "draft" model, a draft "head", or "either" of these two.
Needs = Literal["", "grammar", "model", "logits", "draft", "head", "either", "choices"]


@dataclass(frozen=True)
class Entry:
    """One method.

    ``path`` is the function that builds the parts shared by all sequences, as MODULE or
    MODULE:FUNCTION (default ``prepare``) below ``tasc.decoding.drafters``, imported on use. It
    takes ``resources`` and ``options``, whose annotation is the method's options class.
    ``paper`` is the method's source, ``preset`` overrides defaults of
    the options class. ``budget`` is the maximum number of nodes per step, None for a method that
    does not draft; ``ADAPTIVE`` drafts as many as pay on this device.
    """

    path: str
    paper: str
    needs: Needs = ""
    budget: int | None = DEFAULT_BUDGET
    preset: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prepare(self) -> Callable[[Resources, Any], Factory]:
        path = self.path if ":" in self.path else f"{self.path}:prepare"
        function: Callable[[Resources, Any], Factory] = resolve_name(
            f"tasc.decoding.drafters.{path}"
        )
        return function

    @property
    def options(self) -> type:
        kind: type = inspect.signature(self.prepare).parameters["options"].annotation
        return kind

    @property
    def simulates(self) -> bool:
        """Whether recorded outputs can replace the target, because its states are not read."""
        return self.needs in ("", "model", "grammar")


# The constants of Tsur et al.; discount = strength = 0 is their back-off.
PAPER = {
    "n_max": 5,
    "lambda_": 0.75,
    "p_min": 5,
    "discount": 0.0,
    "strength": 0.0,
    "prompt_discount": 0.0,
    "gain": 0.0,
    "width": 1,
    "mark": False,
    "match": False,
    "adapt": False,
}
CORPUS = {"prompt": False, "adapt": False}
PROMPT = {"corpus": False, "adapt": False}
_TSUR = "Tsur et al., TASC, section 5.2"
_TIMOR = "Timor et al., Heterogeneous Vocabularies"
_TRIE = "N-Gram Trie Speculative Decoding, section 3"
_MICRO = "MicroSpec, arXiv:2605.26444, section 3"
_MIX = "`tasc-spec`, and a head or model as one more source"

DRAFTERS: dict[str, Entry] = {
    "ar": Entry("none", "plain autoregressive decoding", budget=None),
    "grammar": Entry("none", "the text that a grammar determines, and nothing else", "grammar"),
    "tasc-spec": Entry("ngram.tasc_spec", _TSUR, budget=ADAPTIVE),
    "tasc-spec-paper": Entry("ngram.tasc_spec", _TSUR, budget=10, preset=PAPER),
    "corpus": Entry("ngram.tasc_spec", f"{_TSUR}: p_corp", preset=CORPUS),
    "prompt": Entry("ngram.tasc_spec", f"{_TSUR}: p_prompt", preset=PROMPT),
    "prompt-lookup": Entry("ngram.prompt_lookup", "Saxena, Prompt Lookup Decoding", budget=10),
    "ngram-trie": Entry("ngram.ngram_trie", _TRIE),
    "suffix": Entry("ngram.suffix", "Oliaro et al., SuffixDecoding"),
    "recycling": Entry("ngram.recycling", "Luo et al., Token Recycling", "logits"),
    "ngrammys": Entry("ngram.ngrammys", "Stewart et al., The n-grammys", "model"),
    "slem": Entry("hetero.source:slem", f"{_TIMOR}, algorithm 2", "draft"),
    "slrs": Entry("hetero.source:slrs", f"{_TIMOR}, algorithm 3", "draft"),
    "tli": Entry("hetero.source:tli", f"{_TIMOR}, algorithm 4", "draft"),
    "union": Entry("hetero.source:union", f"{_TIMOR}, algorithm 1", "draft"),
    "standard": Entry("hetero.source:standard", f"{_TIMOR}, algorithm 5", "draft"),
    "eagle": Entry("heads.methods:eagle", "Li et al., EAGLE-2", "head", 60),
    "fr-spec": Entry("heads.methods:fr_spec", "Zhao et al., FR-Spec, section 3.2", "head", 60),
    "microspec": Entry("heads.methods:microspec", _MICRO, "head", 60),
    "mix": Entry("mix", _MIX, "either", ADAPTIVE),
}
# methods with outputs of their own, which are not compared with plain decoding
CHOICES: dict[str, Entry] = {
    "choices": Entry("none:choices", "all labels in one forward", "choices", budget=None),
}
METHODS = ChainMap(CHOICES, DRAFTERS)  # drafters come first


def needing(need: Needs) -> list[str]:
    """Return the names of the methods with the need ``need``."""
    return [name for name, entry in METHODS.items() if entry.needs == need]
