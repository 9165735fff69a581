"""Drafters against their slow definitions and worked examples."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from tasc._native import NgramTrie, SuffixArray, SuffixDrafter
from tasc.decoding.core.draft import Draft
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.ngram import ngrammys
from tasc.decoding.drafters.ngram.ngrammys import Ngrammys, NgrammysOptions, bigram_table
from tasc.errors import InputError
from tests.decoding.ngrams import END, token
from tests.decoding.scripted import ints, paths
from tests.pico import build_model


@given(
    st.lists(st.sampled_from([0, 1, 2, 3, END]), min_size=1, max_size=30),
    st.integers(1, 4),
    st.integers(1, 9),
)
@settings(max_examples=200, deadline=None)
def test_prompt_lookup_copies_what_that_of_transformers_copies(sequence, n_max, wanted):
    generator = PromptLookupCandidateGenerator(
        torch.tensor([END]), wanted, max_matching_ngram_size=n_max, max_length=99
    )
    ids = torch.tensor([sequence])
    expected = generator.get_candidates(ids)[0][0, len(sequence) :].tolist()
    text = f"prompt-lookup:chain={wanted},n_max={n_max}"
    drafter = parse(text).prepare(Resources([], END))()
    drafter.start(ints(*sequence))
    drafted = drafter.draft(wanted).tokens.tolist()
    # transformers leaves the end token itself out; the rest is the same.
    assert drafted[: len(expected)] == expected
    assert drafted[len(expected) :] in ([], [END])


class SlowTrie:
    """Algorithm 1: nested dictionaries from token to [count, children]."""

    def __init__(self, context, n, prefix):
        self.root: list[Any] = [0, {}]
        for i in range(len(context) - 1):
            window = context[i : i + n]
            for j in range(min(prefix, len(window) - 1)):
                node = self.root
                for t in window[j:]:
                    node = node[1].setdefault(t, [0, {}])
                    node[0] += 1

    def frequencies(self, sequence, prefix):
        """Frequency of every path below the longest suffix that matches."""
        for k in range(min(prefix, len(sequence)), 0, -1):
            node = self.root
            for t in sequence[-k:]:
                node = node[1].get(t, [0, {}])
            if node[1]:
                return dict(self._paths(node, ()))
        return {}

    def _paths(self, node, path):
        for t, child in node[1].items():
            yield (*path, t), child[0]
            yield from self._paths(child, (*path, t))


@given(
    st.lists(token, max_size=30),
    st.lists(token, min_size=1, max_size=4),
    st.integers(2, 8),
    st.integers(1, 3),
    st.integers(1, 12),
)
@settings(max_examples=200, deadline=None)
def test_trie_drafts_the_most_frequent_paths(context, sequence, n, prefix, kept):
    n = max(n, prefix + 1)
    trie = NgramTrie(n, prefix)
    trie.build(ints(*context))
    tokens, parents, _ = trie.draft(ints(*sequence), kept, 99)
    frequencies = SlowTrie(context, n, prefix).frequencies(sequence, prefix)
    drafted = paths(Draft(tokens, parents))
    assert len(set(drafted)) == len(drafted) == min(kept, len(frequencies))
    best = sorted(frequencies.values(), reverse=True)[:kept]
    assert sorted((frequencies[p] for p in drafted), reverse=True) == best


def slow_suffix(texts, sequence, end):
    """What followed the longest end of the sequence: in the samples, in the sequence, or both."""
    corpus, own = [], []
    for n in range(len(sequence), 0, -1):
        tail = sequence[-n:]
        for text in [[*t, end] for t in texts] if not corpus else []:
            positions = range(len(text) - n)
            corpus += [text[i + n] for i in positions if text[i : i + n] == tail]
        if not own:
            positions = range(len(sequence) - n)
            own += [sequence[i + n] for i in positions if sequence[i : i + n] == tail]
            own_length = n
        if corpus:
            return corpus + own if own and own_length == n else own or corpus
    return own


@given(
    st.lists(st.lists(token, max_size=20), min_size=1, max_size=6),
    st.lists(token, min_size=1, max_size=20),
)
@settings(max_examples=200, deadline=None)
def test_suffix_counts_what_followed_the_longest_match(texts, sequence):
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    corpus = SuffixArray(ints(*[t for text in texts for t in text]), offsets, 9)
    assert corpus.check_integrity() is None
    drafter = SuffixDrafter(corpus, 60, 0.0, 0, 9)
    drafter.start(ints(*sequence))
    tokens, parents, probabilities = drafter.draft(200)
    follows = slow_suffix(texts, sequence, 9)
    roots = parents == -1
    drafted = dict(zip(tokens[roots].tolist(), probabilities[roots].tolist(), strict=True))
    assert drafted == pytest.approx({t: follows.count(t) / len(follows) for t in follows})


def test_bigrams_are_the_models_most_probable_next_tokens(monkeypatch):
    model = build_model("qwen2")
    seen = []
    table = bigram_table(model, 4, lambda *a: seen.append(a))
    assert table.shape == (320, 4)
    assert seen[-1] == ("bigrams", 320, 320)
    with torch.inference_mode():
        row = model(input_ids=torch.tensor([[17]])).logits[0, -1]
    assert table[17].tolist() == row.topk(4).indices.tolist()
    monkeypatch.setattr(ngrammys, "TOKENS_PER_FORWARD", 100)  # the last forward has fewer
    assert np.array_equal(bigram_table(model, 4), table)


def test_a_small_vocabulary_has_no_more_bigrams_than_tokens():
    assert bigram_table(build_model("qwen2", vocabulary=3), 8).shape == (3, 3)


def test_ngrammys_puts_context_rows_before_the_models(target):
    method = parse("ngrammys:k=2,width=3,n_max=2,budget=20")
    drafter = method.prepare(Resources([], 0, target=target))()
    drafter.start(ints(5, 6, 7, 8, 5, 6))
    drafted = paths(drafter.draft(20))
    assert drafted[:3] == [(7,), (7, 8), (7, 8, 5)]
    likely = bigram_table(target.model, 2)[6].tolist()
    assert {path for path in drafted if len(path) == 1} == {(7,), *zip(likely)}
    with pytest.raises(InputError, match="model"):
        method.prepare(Resources([], 0))


def slow_rows(sequence, table, options):
    """What followed the longest n-gram that ends the sequence, latest first; then the table's."""
    for n in range(options.n_max, 0, -1) if options.context else ():
        ends = [i + n for i in range(len(sequence) - n) if sequence[i : i + n] == sequence[-n:]]
        if ends:
            for end in ends[::-1][: options.k]:
                yield sequence[end : end + options.width]
            break
    for first in table[sequence[-1]].tolist():
        row = [first]
        while len(row) < options.width:
            row.append(table[row[-1]].tolist()[0])
        yield row


@given(
    st.lists(token, min_size=1, max_size=30),
    st.builds(NgrammysOptions, *[st.integers(1, 4)] * 2, st.booleans(), st.integers(1, 4)),
    st.integers(0, 30),
    st.integers(0, 60),
)
def test_ngrammys_drafts_the_rows_of_its_definition(sequence, options, prompt, budget):
    table = np.random.default_rng(0).integers(0, 4, (4, options.k)).astype(np.int32)
    drafter = Ngrammys(table, 3, options)
    drafter.start(ints(0, 1, 2))  # another sequence leaves nothing
    drafter.start(ints(*sequence[:prompt]))
    drafter.observe(ints(*sequence[prompt:]))
    rows = [row[: (*row, 3).index(3) + 1] for row in slow_rows(sequence, table, options)]
    expected = dict.fromkeys(tuple(row[:n]) for row in rows for n in range(1, len(row) + 1))
    assert paths(drafter.draft(budget)) == list(expected)[:budget]


def test_suffixes_need_a_corpus():
    with pytest.raises(InputError, match="no outputs"):
        parse("suffix").prepare(Resources([], 0))
