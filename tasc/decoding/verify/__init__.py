"""Verification: from a draft and the target's logits to the accepted path and the bonus token.

Every rule is lossless: greedy output equals the target's, and sampled output has its distribution.
"""

from collections.abc import Callable

from tasc.decoding.core.protocols import Verifier
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.verify.exact import Sampled, greedy
from tasc.decoding.verify.rejection import MultiBranch, Rejection
from tasc.errors import InputError

__all__ = ["VERIFIERS", "MultiBranch", "Rejection", "Sampled", "greedy", "verifier"]

# name -> verifier of one sequence; greedy ignores the sampling
VERIFIERS: dict[str, Callable[[Sampling], Verifier]] = {
    "greedy": lambda _: greedy,
    "sampled": Sampled,  # any draft; ignores its probabilities
    "rejection": Rejection,  # chains
    "multi-branch": MultiBranch,  # trees
}


def verifier(name: str, sampling: Sampling) -> Verifier:
    """Return the verifier ``name`` for one sequence. Raises InputError for an unknown name."""
    if name not in VERIFIERS:
        raise InputError(f"unknown verifier {name!r}: choose from {', '.join(VERIFIERS)}")
    return VERIFIERS[name](sampling)
