"""Search, export, look which new tokens are never produced, drop them, and search on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from tokenizers import Tokenizer

from tasc.analysis.outputs import Outputs
from tasc.backend import MergeRequest, MergeResult, merge_search
from tasc.errors import InputError
from tasc.progress import Progress
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.exports.export import Exporter
from tasc.vocab.exports.merges import NewToken
from tasc.vocab.search.budget import MOST, replayed, tokens_at_the_end
from tasc.vocab.search.options import AugmentOptions
from tasc.vocab.search.selection import Selection, most_tokens, select
from tasc.vocab.search.token_filter import TokenFilter

_REFILLS = 6  # rounds that give the budget of unused tokens to the next best; later ones shrink it


@dataclass(frozen=True)
class Refined:
    """The last search, what was taken from it, and the tokenizer made of that."""

    result: MergeResult
    chosen: Selection
    made: Tokenizer
    excluded: dict[str, int]  # n-grams that the export cannot carry, by reason
    rounds: int
    shortfall: str | None  # why there are fewer tokens than wanted


@dataclass(frozen=True)
class _End:
    """What stands once nothing more is to be merged."""

    result: MergeResult
    selection: Selection
    tokens: int  # of the outputs that are measured
    nothing_left: bool  # whether every output that recurs is one token


@dataclass(frozen=True)
class Choice:
    """The tokens for one budget, before any is exported."""

    result: MergeResult  # the search that they are from
    selection: Selection
    whole: bool  # whether they are those at the end of a search: whole outputs


class Refiner:
    """Finds tokens for the outputs that the exported tokenizer really produces on them.

    A unused token that hardly stands in the search's corpus any more was a intermediate merge: it
    stays in the search and is not written. One that does stand there cannot be reached by the
    tokenizer: its string is banned. Either way the budget goes to the next best.
    """

    def __init__(
        self,
        base: LoadedTokenizer,
        outputs: Outputs,
        held_out: Outputs | None,
        options: AugmentOptions,
    ) -> None:
        """Raise InputError when the base tokenizer does not allow the export."""
        self._outputs, self._held_out = outputs, held_out
        self._options, self._base = options, base
        self._exporter = Exporter(base, options.export)
        self._screen = TokenFilter(base, options, needs_space=self._exporter.needs_space)
        self._vocabulary = base.vocabulary()
        # Added tokens are cut out of a text before anything else, so no n-gram can hold one.
        self._barriers = base.special_ids | frozenset(base.tokenizer.get_added_tokens_decoder())
        self._barriers |= {i for i, s in enumerate(self._vocabulary) if self._screen.protects(s)}
        tokens = outputs.total(np.diff(outputs.encoded.offsets))
        self._min_reward = math.ceil(options.min_gain * tokens)
        self._scaffolds: set[bytes] = set()
        self._banned: set[bytes] = set()
        self._at_the_end: _End | None = None  # known until tokens are dropped

    def run(self, name: str, budget: int, progress: Progress) -> Refined:
        """Refine until no token is unused; ``name`` stands in errors.

        Raises InputError when the budget is larger than the number of candidates, unless every
        output that recurs is a single token then.
        """
        wanted = budget
        for done in count(1):
            choice = self.choose(self._search_for(budget, progress), budget, progress)
            result, chosen = choice.result, choice.selection
            if done == 1 and not choice.whole:
                self._check_budget(result, len(chosen.tokens), name, budget)
            made = self._exporter.tokenizer(chosen.additions, chosen.rules)
            unused = self._dead(made, chosen.tokens)
            if not unused:
                break
            self._drop(unused, chosen)
            if done >= _REFILLS or len(unused) == len(chosen.tokens):
                budget = len(chosen.tokens) - len(unused)
            if not budget:
                raise InputError(
                    f"{name}: the exported tokenizer produces none of the {len(unused)} new "
                    "tokens: use the other --export"
                )
        excluded = {reason: len(strings) for reason, strings in self._screen.excluded.items()}
        short = self._shortfall(wanted, len(chosen.tokens), choice.whole)
        return Refined(result, chosen, made, excluded, done, short)

    def survey(self, budget: int, progress: Progress) -> MergeResult:
        """Search once for all budgets up to this one and the recommended size."""
        return self._search_for(budget, progress, MOST)

    def choose(self, searched: MergeResult, budget: int, progress: Progress) -> Choice:
        """Take the tokens for a budget from a search that holds it.

        Where outputs are few, those at the end of the search if they are better: fewer tokens may
        stand there than on the way, and be longer: whole outputs.
        """
        chosen = select(searched, self._vocabulary, self._scaffolds, budget)
        if self._outputs.fit(budget):
            if self._at_the_end is None:
                self._at_the_end = self._search_to_the_end(progress)
            end = self._at_the_end
            if 0 < len(end.selection.tokens) <= budget:
                way = replace(searched, merges=searched.merges[: chosen.length])
                there = replayed(way, self._held_out or self._outputs)[-1]
                if end.tokens < there or (end.tokens == there and end.nothing_left):
                    return Choice(end.result, end.selection, whole=True)
        return Choice(searched, chosen, whole=False)

    def _search_for(self, budget: int, progress: Progress, least: int = 0) -> MergeResult:
        """Search for ``least`` merges or more, until ``budget`` tokens stand or no more do."""
        asked = max(least, budget + len(self._scaffolds) + max(16, budget // 8))
        while True:
            result = self.search(asked, progress)
            chosen = select(result, self._vocabulary, self._scaffolds, budget)
            if len(chosen.tokens) == budget or len(result.merges) < asked:
                return result
            asked *= 2

    def _search_to_the_end(self, progress: Progress) -> _End:
        result = self.search(len(self._outputs.encoded.tokens), progress)
        recurring = np.where(self._outputs.weights > 1, self._outputs.weights, 0)
        often = replace(self._outputs, weights=recurring)
        return _End(
            result,
            select(result, self._vocabulary, self._scaffolds, None),
            tokens_at_the_end(result, self._outputs, self._held_out),
            nothing_left=replayed(result, often)[-1] == often.count > 0,
        )

    def search(self, budget: int, progress: Progress) -> MergeResult:
        """Search once for up to ``budget`` tokens; the merges are nested."""
        encoded, options = self._outputs.encoded, self._options
        request = MergeRequest(
            tokens=encoded.tokens,
            offsets=encoded.offsets,
            weights=self._outputs.weights,
            vocabulary=self._vocabulary,
            special=self._barriers,
            budget=budget,
            n_max=options.n_max,
            alpha_pcs=options.pcs,
            conditional=options.conditional,
            boundaries=self._outputs.boundaries,
            banned=frozenset(self._banned),
            admit=self._screen,
            min_reward=self._min_reward,
        )
        return merge_search(request, progress)

    def _check_budget(self, result: MergeResult, found: int, name: str, budget: int) -> None:
        if found < (1 if self._options.min_gain else budget):
            most = most_tokens(result, len(self._vocabulary))
            advice = (
                f"use --new-tokens {most} or auto" if most else "use more outputs or a higher --pcs"
            )
            if self._options.min_gain:
                raise InputError(
                    f"{name}: no n-gram passes PCS < {self._options.pcs} and saves "
                    f"{self._options.min_gain:g} of the tokens: use a lower --min-gain"
                )
            raise InputError(
                f"{name}: budget {budget} is larger than the {most} n-grams that "
                f"recur in {int(self._outputs.weights.sum())} outputs and pass "
                f"PCS < {self._options.pcs}: {advice}"
            )

    def _shortfall(self, wanted: int, added: int, whole: bool) -> str | None:
        if added >= wanted:
            return None
        why = "the saved tokenizer would produce no other on the training outputs"
        if whole:
            why = (
                "once these stand in the outputs, no other n-gram recurs and passes "
                f"PCS < {self._options.pcs}, and {wanted:,} would shorten the outputs no further"
            )
        elif self._options.min_gain:
            why = f"no other saves {self._options.min_gain:g} of the tokens"
        return f"{wanted:,} wanted, {added:,} added: {why}"

    def _dead(self, made: Tokenizer, tokens: Sequence[NewToken]) -> list[NewToken]:
        encoded = LoadedTokenizer(made, self._base.path).encode(self._outputs.texts)
        seen = set(np.unique(encoded.tokens).tolist())
        return [token for token in tokens if token.new_id not in seen]

    def _drop(self, unused: list[NewToken], chosen: Selection) -> None:
        self._at_the_end = None
        left = dict(zip(chosen.tokens, chosen.left_over, strict=True))
        for token in unused:
            unreachable = 2 * left[token] > token.frequency
            (self._banned if unreachable else self._scaffolds).add(token.string.encode())
