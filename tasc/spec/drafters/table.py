"""The table of methods: how each is built from what a job has, and where it is described."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasc.errors import InputError
from tasc.progress import Progress, silent
from tasc.spec.protocols import Drafter

if TYPE_CHECKING:
    from tasc._native import NgramIndex
    from tasc.data.tokenizer import LoadedTokenizer
    from tasc.models.target import Target
    from tasc.spec.drafters.hetero.source import DraftSource
    from tasc.spec.sampling import Sampling

DEFAULT_BUDGET = 12
NO_HEAD = (
    "eagle, fr-spec, microspec and medusa draft with a trained head: make one with "
    "tasc finetune --draft-head and name its folder with --draft-head"
)


@dataclass(frozen=True)
class Resources:
    """What drafters are built from: the corpus' outputs, each (T_i,) int32, and the end token.

    ``indexes`` are saved ones, used instead of counting ``outputs``. ``target`` is for methods that
    ask the model itself; ``cache`` is a folder where they keep its answers. Methods with a
    vocabulary of their own need the target's ``tokenizer``, draft with ``draft`` (n-grams of bytes
    where None), and draw as ``sampling`` says, the most likely token where None.
    ``draft_heads`` are folders of heads trained for that target, of which a method takes the first
    of its kind; ``token_counts`` is what ``tasc analyze`` wrote with its tokenizer: it ranks tokens
    where drafts keep to frequent ones, instead of ``outputs``.
    """

    outputs: Sequence[np.ndarray]
    end: int
    indexes: "Sequence[NgramIndex]" = ()
    target: "Target | None" = None
    cache: Path | None = None
    progress: Progress = silent
    tokenizer: "LoadedTokenizer | None" = None
    draft: "DraftSource | None" = None
    sampling: "Sampling | None" = None
    draft_heads: Sequence[Path] = ()
    token_counts: Path | None = None


@dataclass(frozen=True)
class NoOptions:
    """For methods without options."""


Factory = Callable[[], Drafter]


def _autoregressive(_resources: Resources, _options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.none import Autoregressive

    return Autoregressive


def _tasc_spec(resources: Resources, options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.tasc_spec import Memory, TascSpec, indexes_for
    from tasc.spec.index import check_counts

    if options.corpus and resources.indexes:
        indexes = list(resources.indexes)
        for index in indexes:
            check_counts(index, options)
    else:
        indexes = indexes_for(resources.outputs, resources.end, options)
    memory = Memory(options.n_max, options.memory) if options.adapt else None
    return lambda: TascSpec(indexes, resources.end, options, memory)


def _prompt_lookup(resources: Resources, options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.prompt_lookup import PromptLookup

    return lambda: PromptLookup(resources.end, options)


def _ngram_trie(_resources: Resources, options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.ngram_trie import NgramTrie

    return lambda: NgramTrie(options)


def _ngrammys(resources: Resources, options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.ngrammys import Ngrammys, bigram_table

    if resources.target is None:
        raise InputError("ngrammys asks the model for its bigrams: give a model")
    model = resources.target.model
    table = bigram_table(model, options.k, resources.cache, resources.progress)
    return lambda: Ngrammys(table, resources.end, options)


def _suffix(resources: Resources, options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.suffix import Suffix, suffix_array

    corpus = suffix_array(resources.outputs, resources.end)
    return lambda: Suffix(corpus, resources.end, options)


def _eagle(resources: Resources, options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.heads.methods import eagle

    return eagle(resources, options)


def _fr_spec(resources: Resources, options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.heads.methods import fr_spec

    return fr_spec(resources, options)


def _microspec(resources: Resources, options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.heads.methods import microspec

    return microspec(resources, options)


def _medusa(resources: Resources, options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.heads.methods import medusa

    return medusa(resources, options)


def _options(module: str, name: str) -> Callable[[], type]:
    """Find an options class when asked: a module is imported only if its method is used."""

    def find() -> type:
        kind: type = getattr(import_module(f"tasc.spec.drafters.{module}"), name)
        return kind

    return find


_tasc_spec_options = _options("tasc_spec", "TascSpecOptions")


def _paper_constants() -> Mapping[str, Any]:
    from tasc.spec.drafters.tasc_spec import PAPER

    return PAPER


@dataclass(frozen=True)
class Entry:
    """One method: how to build it, its options, where it is described, and whether it drafts.

    ``preset`` are options that differ from their class' defaults; ``budget`` is the nodes a step.
    ``translates``: it drafts in a vocabulary of its own; ``head``: with a trained draft head.
    """

    prepare: Callable[[Resources, Any], Factory]
    options: Callable[[], type]
    paper: str
    drafts: bool = True
    preset: Callable[[], Mapping[str, Any]] = dict
    budget: int = DEFAULT_BUDGET
    translates: bool = False
    head: bool = False

    @property
    def simulates(self) -> bool:
        """Whether it drafts from the target's tokens alone, so that references can stand for it."""
        return not (self.translates or self.head)


def _hetero(name: str, options: str, paper: str) -> Entry:
    def prepare(resources: Resources, given: Any) -> Factory:  # noqa: ANN401
        from tasc.spec.drafters.hetero.source import prepare

        return prepare(name, resources, given)

    paper = f"Timor et al., Heterogeneous Vocabularies, {paper}"
    return Entry(prepare, _options("hetero.options", options), paper, translates=True)


_TSUR = "Tsur et al., TASC, section 5.2"
DRAFTERS: dict[str, Entry] = {
    "ar": Entry(_autoregressive, lambda: NoOptions, "plain autoregressive decoding", drafts=False),
    "tasc-spec": Entry(_tasc_spec, _tasc_spec_options, _TSUR),
    "tasc-spec-paper": Entry(
        _tasc_spec, _tasc_spec_options, _TSUR, preset=_paper_constants, budget=10
    ),
    "corpus": Entry(
        _tasc_spec, _tasc_spec_options, f"{_TSUR}: p_corp", preset=lambda: {"prompt": False}
    ),
    "prompt": Entry(
        _tasc_spec, _tasc_spec_options, f"{_TSUR}: p_prompt", preset=lambda: {"corpus": False}
    ),
    "prompt-lookup": Entry(
        _prompt_lookup,
        _options("prompt_lookup", "PromptLookupOptions"),
        "Saxena, Prompt Lookup Decoding",
        budget=10,
    ),
    "ngram-trie": Entry(
        _ngram_trie,
        _options("ngram_trie", "NgramTrieOptions"),
        "N-Gram Trie Speculative Decoding, section 3",
    ),
    "suffix": Entry(_suffix, _options("suffix", "SuffixOptions"), "Oliaro et al., SuffixDecoding"),
    "ngrammys": Entry(
        _ngrammys, _options("ngrammys", "NgrammysOptions"), "Stewart et al., The n-grammys"
    ),
    "slem": _hetero("slem", "HeteroOptions", "algorithm 2"),
    "slrs": _hetero("slrs", "SlrsOptions", "algorithm 3"),
    "tli": _hetero("tli", "HeteroOptions", "algorithm 4"),
    "union": _hetero("union", "HeteroOptions", "algorithm 1"),
    "standard": _hetero("standard", "HeteroOptions", "algorithm 5"),
    "eagle": Entry(
        _eagle, _options("heads.eagle", "EagleOptions"), "Li et al., EAGLE-2", budget=60, head=True
    ),
    "fr-spec": Entry(
        _fr_spec,
        _options("heads.methods", "FrSpecOptions"),
        "Zhao et al., FR-Spec, section 3.2",
        budget=60,
        head=True,
    ),
    "microspec": Entry(
        _microspec,
        _options("heads.methods", "MicroSpecOptions"),
        "MicroSpec, arXiv:2605.26444, section 3",
        budget=60,
        head=True,
    ),
    "medusa": Entry(
        _medusa,
        _options("heads.methods", "MedusaOptions"),
        "Cai et al., Medusa, section 2.1; pruned as in FR-Spec, table 5",
        budget=60,
        head=True,
    ),
}
