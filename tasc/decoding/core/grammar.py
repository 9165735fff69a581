"""A constraint compiled for a tokenizer, and the masks that it puts on logits.

llguidance parses bytes, so a grammar fixes the text of an output and leaves its tokenization to the
model: a token is allowed if its bytes continue a valid output. An end token is allowed where the
output is complete.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tasc.errors import InputError, UnavailableError
from tasc.options.constraint import Constraint
from tasc.tokenizer.forked import Forked
from tasc.tokenizer.loaded import LoadedTokenizer

if TYPE_CHECKING:
    import torch

FORCED = 64  # nodes of a draft, with those that the grammar determines
_REMEMBERED = 10_000  # texts that must come next
_SECONDS, _MEMORY = 10.0, 4 << 30  # to compile a grammar
# Without forcing, a mask allows every tokenization of a text that the grammar determines.
_OPTIONS = '%llguidance {"no_forcing": true}\n'


class Vocabulary:
    """A tokenizer in the form that llguidance reads: the bytes of each token.

    A special token that ends no output may write its text, as a model that learnt it does.
    """

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: LoadedTokenizer, ends: Collection[int]) -> None:
        """Let ``ends`` end outputs; without any, an id of no token stands for them."""
        self.tokens = tokenizer.spellings()
        self.ends = sorted(ends) or [len(self.tokens)]
        self.tokens += [b""] * (max(self.ends) + 1 - len(self.tokens))
        for end in self.ends:
            self.tokens[end] = b""
        self.eos_token_id = self.ends[0]
        self.special_token_ids = [i for i, string in enumerate(self.tokens) if not string]

    def __call__(self, text: object) -> list[int]:  # noqa: ARG002
        """Return no tokens: tokens are not forced."""
        return []


class Grammar:
    """A constraint compiled for the tokens of ``tokenizer``; sequences share it.

    Raises InputError for a constraint that is invalid or takes too long to compile, and
    UnavailableError without llguidance.
    """

    def __init__(
        self, constraint: Constraint, tokenizer: LoadedTokenizer, ends: Collection[int]
    ) -> None:
        """Compile for outputs that one of ``ends`` ends."""
        llguidance = _llguidance()
        self.constraint, self.tokenizer, self.ends = constraint, tokenizer, frozenset(ends)
        vocabulary = Vocabulary(tokenizer, ends)
        self.lengths = np.array([len(string) for string in vocabulary.tokens])
        slices = llguidance.LLTokenizer.json_slices() if constraint.kind == "schema" else None
        engine = llguidance.LLTokenizer(
            vocabulary, n_vocab=len(vocabulary.tokens), eos_token=vocabulary.ends, slices=slices
        )
        # Some tokenizers write a space before the first word, which decoding removes.
        first = tokenizer.encode(["a"]).tokens.tolist()
        spaced = b"".join(vocabulary.tokens[token] for token in first).startswith(b" ")
        self._matcher = _compiled(constraint, engine, spaced=spaced)
        self._end = tuple(ends) if len(self.ends) == 1 else ()
        self._forced: dict[bytes, Sequence[int]] = {}

    def matcher(self) -> Any:  # noqa: ANN401 - llguidance's LLMatcher
        return self._matcher.deep_copy()

    def allowed(self, matcher: Any) -> np.ndarray:  # noqa: ANN401
        """Return whether each token may come next, (V,) bool. Raises InputError at a limit."""
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        if matcher.is_error():
            reason = " ".join(matcher.get_error().split())
            raise InputError(
                f"{self.constraint.name} is too complex for this output ({reason:.200}): shorten "
                "the constraint"
            )
        flags: np.ndarray = np.unpackbits(bits, bitorder="little")[: len(self.lengths)]
        return flags.view(bool)

    def valid(self, matcher: Any, tokens: list[int]) -> int:  # noqa: ANN401
        """Return how many of ``tokens`` may come next; a padding row of a model is no token."""
        is_inside = max(tokens, default=0) < len(self.lengths)  # another id breaks the matcher
        return int(matcher.validate_tokens(tokens)) if is_inside else 0

    def forced(self, matcher: Any) -> Sequence[int]:  # noqa: ANN401
        """Return the tokens of the text that must come next, without those that may go on.

        They are the tokenizer's own; a model may write the same text with others. Found once per
        text: after other outputs they may be fewer than there could be, or one too many.
        """
        if matcher.is_stopped():
            return self._end
        text = matcher.compute_ff_bytes()
        if not text:
            return ()
        if text not in self._forced and len(self._forced) < _REMEMBERED:
            self._forced[text] = self._encoded(matcher, text)
        return self._forced.get(text, ())

    def _encoded(self, matcher: Any, text: bytes) -> Sequence[int]:  # noqa: ANN401
        try:
            tokens = self.tokenizer.encode([text.decode()]).tokens.tolist()
        except UnicodeDecodeError:  # the text ends within a character
            return ()
        taken = matcher.try_consume_tokens(tokens)
        if taken < len(tokens):
            matcher.rollback(taken)
            return ()
        while tokens:
            matcher.rollback(1)
            if self.lengths[self.allowed(matcher)].max(initial=0) <= self.lengths[tokens[-1]]:
                break
            tokens.pop()
        matcher.rollback(max(len(tokens) - 1, 0))
        return tuple(tokens)

    def accepts(self, tokens: Sequence[int]) -> bool:
        """Return whether ``tokens``, with or without an end token, are a complete output."""
        matcher, body = self.matcher(), self.before_end(tokens)
        if len(body) < len(tokens) - 1 or matcher.try_consume_tokens(body) < len(body):
            return False
        return bool(matcher.is_accepting())

    def before_end(self, tokens: Sequence[int]) -> list[int]:
        ends = self.ends
        return list(tokens[: next((i for i, t in enumerate(tokens) if t in ends), len(tokens))])


class Masks:
    """Adjusts one sequence's logits: tokens that the grammar forbids become -inf."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar, self.matcher = grammar, grammar.matcher()

    @property
    def complete(self) -> bool:
        return bool(self.matcher.is_stopped())

    def extend(self, tokens: Sequence[int]) -> None:
        """Append the committed tokens of a step, up to an end token."""
        self.matcher.try_consume_tokens(self.grammar.before_end(tokens))

    def allows(self, tokens: Sequence[int]) -> bool:
        """Return whether ``tokens`` may come next, up to an end token."""
        body = self.grammar.before_end(tokens)
        if self.grammar.valid(self.matcher, body) < len(body):
            return False
        with self._after(body):
            return len(body) == len(tokens) or bool(self.matcher.is_accepting())

    def __call__(self, path: Sequence[int], row: "torch.Tensor") -> "torch.Tensor":
        """Return the row (V,) float32 after the output and the tokens of ``path``."""
        import torch

        body = self.grammar.before_end(path)
        if len(body) < len(path):  # after the end, nothing counts
            return row
        with self._after(body):
            allowed = torch.from_numpy(self.grammar.allowed(self.matcher))
        most = min(len(row), len(allowed))
        scores = torch.full_like(row, float("-inf"), dtype=torch.float32)
        allowed_here = allowed[:most].to(row.device)
        scores[:most] = torch.where(allowed_here, row[:most].float(), float("-inf"))
        return scores

    @contextmanager
    def _after(self, tokens: list[int]) -> Iterator[None]:
        taken = self.matcher.try_consume_tokens(tokens)
        try:
            yield
        finally:
            self.matcher.rollback(taken)


def _written(constraint: Constraint, *, spaced: bool) -> str:
    """Return llguidance's description of a grammar, ``spaced`` if a space may come first."""
    start = _OPTIONS + "start: " + '" "? ' * spaced + "@main"
    if constraint.kind == "schema":
        main = {"lark_grammar": constraint.lark}
    elif constraint.kind == "regex":
        written = _llguidance().LLMatcher.grammar_from_regex(constraint.text)
        main = json.loads(written)["grammars"][0]
    else:
        main = {"lark_grammar": constraint.text}
    return json.dumps({"grammars": [{"lark_grammar": start}, main | {"name": "main"}]})


def text_test(constraint: Constraint) -> Callable[[str], bool]:
    """Return a test of whole texts by a constraint, byte by byte. Raises as ``Grammar`` does."""
    start = _compiled(constraint, _llguidance().LLTokenizer("byte"), spaced=False)

    def accepts(text: str) -> bool:
        matcher, text_bytes = start.deep_copy(), list(text.encode())
        return matcher.try_consume_tokens(text_bytes) == len(text_bytes) and bool(
            matcher.is_accepting()
        )

    return accepts


def _llguidance() -> Any:  # noqa: ANN401 - a module
    try:
        import llguidance
    except ImportError:
        raise UnavailableError(
            "schema, grammar, regex and choices need llguidance, which is not installed: "
            "run pip install llguidance"
        ) from None
    return llguidance


def _compiled(constraint: Constraint, engine: Any, *, spaced: bool) -> Any:  # noqa: ANN401
    """Return an LLMatcher. First compile in a process that can be ended. Raises InputError."""
    matcher = _llguidance().LLMatcher
    make = partial(matcher, engine, _written(constraint, spaced=spaced), log_level=0)
    if problem := _problem(make):
        reason = " ".join(problem.split())
        raise InputError(f"{constraint.name} cannot be used ({reason:.300}): correct it")
    return make()


def _problem(make: Callable[[], Any]) -> str:
    """Return why ``make`` gives no LLMatcher within the limits, or an empty text."""

    def compile(_: object) -> str:
        matcher = make()
        if not matcher.is_error():
            matcher.compute_bitmask()
        return str(matcher.get_error())

    try:
        return Forked(compile, _SECONDS, _MEMORY)(None)
    except TimeoutError:
        return f"it takes more than {_SECONDS:.0f} s to compile"
    except (RuntimeError, MemoryError) as error:
        return str(error)
