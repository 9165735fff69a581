"""Search for tokens, export them, drop those that are never produced, and search again."""

import math
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from tokenizers import Tokenizer

from tasc.analysis.outputs import Outputs, encode_outputs
from tasc.analysis.tokens import request
from tasc.backend import MergeResult, merge_search
from tasc.errors import InputError
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.token_bytes import byte_alphabet
from tasc.vocab.exports.export import Exporter
from tasc.vocab.exports.merges import NewToken
from tasc.vocab.search.budget import Curve, budget_curve, replayed, tokens_at_the_end
from tasc.vocab.search.embedding_cost import EmbeddingCost
from tasc.vocab.search.options import AugmentOptions
from tasc.vocab.search.selection import Selection, most_tokens, select

_REFILLS = 6  # rounds that replace unused tokens by the next best; later rounds drop them


@dataclass(frozen=True)
class Refined:
    """The last search, the tokens chosen from it, and the exported tokenizer."""

    result: MergeResult
    chosen: Selection
    tokenizer: Tokenizer
    excluded: dict[str, int]  # n-grams that the export cannot represent, by reason
    rounds: int
    shortfall: str | None  # why there are fewer tokens than requested

    @property
    def taken(self) -> MergeResult:
        """The part of the search that the tokens need."""
        return self.result.first(self.chosen.length)


@dataclass(frozen=True)
class Choice:
    """The tokens for one budget, before the export."""

    result: MergeResult  # the search that they come from
    selection: Selection
    whole: bool  # whether they come from the end of a search, as whole outputs


class Refiner:
    """Finds tokens that the exported tokenizer really produces on the outputs.

    An unused token that hardly occurs in the search's corpus is an intermediate merge: it stays in
    the search and is not exported. An unused token that does occur there cannot be reached by the
    tokenizer: its string is banned. In both cases the next best token takes its place.
    """

    def __init__(
        self,
        base: LoadedTokenizer,
        outputs: Outputs,
        held_out: Outputs | None,
        options: AugmentOptions,
        progress: Progress = silent,
    ) -> None:
        """Raise InputError if the export does not support the base tokenizer."""
        self._outputs, self._held_out, self._progress = outputs, held_out, progress
        self._options, self._base = options, base
        self._exporter = Exporter(base, options.export)
        self._filter = TokenFilter(base, options, self._exporter)
        self._vocabulary = base.vocabulary()
        # Added tokens are matched before the text is split, so no n-gram can contain one.
        added = frozenset(base.tokenizer.get_added_tokens_decoder())
        self._barriers = base.special_ids | added
        self._barriers |= {i for i, s in enumerate(self._vocabulary) if self._filter.protects(s)}
        tokens = outputs.total(np.diff(outputs.encoded.offsets))
        self._min_reward = math.ceil(options.min_gain * tokens)
        self._intermediate: set[bytes] = set()
        self._banned = {self._vocabulary[i] for i in added}
        self._end: tuple[Choice, int, bool] | None = None  # valid until tokens are dropped

    def run(self, name: str, budget: int) -> Refined:
        """Refine until no token is unused; ``name`` is that of the data, for errors.

        Raises InputError if the budget is larger than the number of candidates, and not every
        recurring output is a single token.
        """
        requested = budget
        for rounds in count(1):
            choice = self.choose(self.search_for(budget), budget)
            result, chosen = choice.result, choice.selection
            if rounds == 1 and not choice.whole:
                self._check_budget(result, len(chosen.tokens), name, budget)
            tokenizer = self._exporter.tokenizer(chosen.additions, chosen.rules)
            unused = self._unused(tokenizer, chosen)
            if not unused:
                break
            self._drop(unused, chosen)
            if rounds >= _REFILLS or len(unused) == len(chosen.tokens):
                budget = len(chosen.tokens) - len(unused)
            if not budget:
                raise InputError(
                    f"{name}: the exported tokenizer produces none of the {len(unused)} new "
                    "tokens: use the other --export"
                )
        excluded = {reason: len(strings) for reason, strings in self._filter.excluded.items()}
        short = self._shortfall(requested, len(chosen.tokens), choice.whole)
        return Refined(result, chosen, tokenizer, excluded, rounds, short)

    def curve(self, searched: MergeResult, rows: EmbeddingCost | None) -> Curve:
        """Return the cost of every number of new tokens that a search covers."""
        size, price = len(self._vocabulary), self._options.overfit_penalty
        return budget_curve(searched, size, self._outputs, self._held_out, rows, price)

    def choose(self, searched: MergeResult, budget: int) -> Choice:
        """Choose the tokens for a budget from a search that covers it.

        With few outputs, the end of the search may be better: its tokens are whole outputs.
        """
        chosen = select(searched, self._vocabulary, self._intermediate, budget)
        if self._outputs.fit(budget):
            self._end = self._end or self._search_to_the_end()
            whole, fewest, complete = self._end
            if 0 < len(whole.selection.tokens) <= budget:
                partial = searched.first(chosen.length)
                tokens = replayed(partial, self._held_out or self._outputs)[-1]
                if fewest < tokens or (fewest == tokens and complete):
                    return whole
        return Choice(searched, chosen, whole=False)

    def search_for(self, budget: int, least: int = 0) -> MergeResult:
        """Search for ``least`` merges or more, until ``budget`` tokens are live or none is left."""
        merges = max(least, budget + len(self._intermediate) + max(16, budget // 8))
        while True:
            result = self.search(merges)
            chosen = select(result, self._vocabulary, self._intermediate, budget)
            if len(chosen.tokens) == budget or len(result.merges) < merges:
                return result
            merges *= 2

    def _search_to_the_end(self) -> tuple[Choice, int, bool]:
        """Return the end of a search, its tokens, and whether each recurring output is one."""
        result = self.search(len(self._outputs.encoded.tokens))
        counts = zip(self._outputs.texts, self._outputs.weights, strict=True)
        recurring = [text for text, times in counts if times > 1]
        often = encode_outputs(recurring, self._base, self._options.export)
        selection = select(result, self._vocabulary, self._intermediate, None)
        tokens = tokens_at_the_end(result, self._outputs, self._held_out)
        complete = len(recurring) > 0 and replayed(result, often)[-1] == often.count
        return Choice(result, selection, whole=True), tokens, complete

    def search(self, budget: int) -> MergeResult:
        """Search once for up to ``budget`` tokens; the merges are nested."""
        plain = request(self._outputs, self._base, budget, self._options)
        refined = replace(
            plain,
            special=self._barriers,
            conditional=self._options.conditional,
            admit=lambda string: string not in self._banned and self._filter(string),
            min_reward=self._min_reward,
        )
        return merge_search(refined, self._progress)

    def _check_budget(self, result: MergeResult, chosen: int, name: str, budget: int) -> None:
        pcs, gain = self._options.pcs, self._options.min_gain
        if chosen >= (1 if gain else budget):
            return
        if gain:
            raise InputError(
                f"{name}: no n-gram passes PCS < {pcs} and saves {gain:g} of the tokens: use a "
                "lower --min-gain"
            )
        most = most_tokens(result, len(self._vocabulary))
        advice = (
            f"use --new-tokens {most} or auto" if most else "use more outputs or a higher --pcs"
        )
        raise InputError(
            f"{name}: {budget} new tokens are more than the {most} n-grams that recur in "
            f"{self._outputs.count} outputs and pass PCS < {pcs}: {advice}"
        )

    def _shortfall(self, requested: int, added: int, whole: bool) -> str | None:
        if added >= requested:
            return None
        why = "the saved tokenizer would produce no other token on the training outputs"
        if whole:
            why = (
                f"with these, no other n-gram recurs and passes PCS < {self._options.pcs}, and "
                f"{requested:,} would shorten the outputs no further"
            )
        elif self._options.min_gain:
            why = f"no other token saves {self._options.min_gain:g} of the tokens"
        return f"{requested:,} requested, {added:,} added: {why}"

    def _unused(self, tokenizer: Tokenizer, chosen: Selection) -> list[NewToken]:
        """Return the tokens that the exported tokenizer does not produce on the outputs."""
        encoded = LoadedTokenizer(tokenizer, self._base.path).encode(self._outputs.texts)
        produced = set(np.unique(encoded.tokens).tolist())
        return [token for token in chosen.tokens if token.new_id not in produced]

    def _drop(self, unused: list[NewToken], chosen: Selection) -> None:
        self._end = None
        left = dict(zip(chosen.tokens, chosen.left_over, strict=True))
        for token in unused:
            unreachable = 2 * left[token] > token.frequency
            (self._banned if unreachable else self._intermediate).add(token.string.encode())


def without_tokens(base: LoadedTokenizer, outputs: Outputs, options: AugmentOptions) -> Refined:
    """Return a base tokenizer of any kind as it is, with no new token."""
    result = merge_search(request(outputs, base, 1, options)).first(0)
    return Refined(result, Selection((), (), (), (), 0), base.tokenizer, {}, 0, None)


class TokenFilter:
    """Rejects strings that cannot be new tokens, and records them by reason."""

    def __init__(self, base: LoadedTokenizer, options: AugmentOptions, exporter: Exporter) -> None:
        self._exporter = exporter
        # A byte-level decoder garbles an added token whose characters are all in its alphabet.
        byte_level = type(base.tokenizer.decoder).__name__ == "ByteLevel"
        self._garbles = options.export == "added" and byte_level
        self._protected = [text.encode() for text in options.protect]
        self.excluded: dict[str, set[bytes]] = {
            reason: set()
            for reason in ("not_utf8", "byte_alphabet", "no_space", "protected", "split_again")
        }

    def protects(self, string: bytes) -> bool:
        return any(protected in string for protected in self._protected)

    def __call__(self, string: bytes) -> bool:
        """Return whether a token with this string can be written, loaded and decoded."""
        reason = self._reason(string)
        if reason is not None:
            self.excluded[reason].add(string)
        return reason is None

    def _reason(self, string: bytes) -> str | None:
        """Return why a string cannot be a new token, as a key of ``excluded``."""
        try:
            text = string.decode()
        except UnicodeDecodeError:
            return "not_utf8"
        if self._exporter.needs_space and not text.startswith(" "):
            return "no_space"
        if self._exporter.splits_again(text):
            return "split_again"
        if self.protects(string):
            return "protected"
        if self._garbles and not text.isascii() and byte_alphabet().keys() >= set(text):
            return "byte_alphabet"
        return None
