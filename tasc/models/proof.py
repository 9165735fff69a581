"""Proof, before a model is decoded with, that trees and batches leave its logits as they are.

That a model's attention can be replaced does not say that the model gives tree nodes the positions
they are told, or reads a mask as it is meant. Such a model would decode without any error, and
wrongly. So a few tokens are run both ways: trees and rows of different lengths through a target,
and each of their texts in one plain forward of the model with its own attention.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel

from tasc import __version__
from tasc.errors import TascError, UnavailableError
from tasc.models.folder import disk_cache
from tasc.models.folder.quiet import quiet
from tasc.models.target import Target

PROMPTS = 6, 3  # tokens; a tree and what follows it take four positions more
PARENTS = np.array([-1, -1, 0, 1], np.int32), np.array([-1, -1], np.int32)
PATHS = (1, 3), (1,)  # what is accepted: never the first nodes, so that keys move
AFTER = 4
EXACT = 1e-3  # of the logits' spread
COARSE = 32  # roundings, in dtypes of few bits
TRIES = 3  # where rounding is coarse: it may hand a token to another expert, which is no error
_FORMAT = 1  # of the cached entry
_NONE = np.empty(0, np.int32)
_SIZES = frozenset({"vocab_size", "bos_token_id", "eos_token_id", "pad_token_id"})
_PROVED: set[str] = set()  # in this process, where the cache cannot be written

Text = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A prompt (L,), the ``last`` token, a tree after it, the path accepted and one token then."""

    prompt: np.ndarray
    last: int
    tokens: np.ndarray
    parents: np.ndarray
    path: tuple[int, ...]
    then: int

    def texts(self) -> list[Text]:
        """Return what stands before each row of logits: the prompt's, the tree's, the one after."""

        def down_to(node: int) -> Text:
            if node < 0:
                return (*self.prompt.tolist(), self.last)
            return (*down_to(int(self.parents[node])), int(self.tokens[node]))

        nodes = [down_to(node) for node in range(-1, len(self.tokens))]
        return [tuple(self.prompt.tolist()), *nodes, (*down_to(self.path[-1]), self.then)]


def prove(target: Target) -> None:
    """Let ``target`` decode as its untouched model does, or refuse it; once for an architecture.

    A success is kept in the user's cache. The sequence that ``target`` was decoding is lost. A
    model of so few positions that no tree fits is let through: no tree will be decoded either.

    Raises UnavailableError where logits are others than the model's own, beyond rounding.
    """
    identity = _identity(target)
    path = disk_cache.entry("proof", identity)
    known = path.name in _PROVED or (disk_cache.read(path) or {}).get("of") == identity
    if known or 0 < target.max_positions <= AFTER:
        return
    allowed = _tolerance(target.model)
    for attempt in range(1 if allowed == EXACT else TRIES):
        errors = _run(target, attempt)
        what, worst = max(errors.items(), key=lambda item: item[1])
        if worst <= allowed:
            _PROVED.add(path.name)
            disk_cache.write(path, {"errors": errors}, identity)
            return
    raise _refused(
        target,
        f"gives other logits for {what} than for plain text (off by {worst:.1%} of their spread, "
        f"where rounding explains {allowed:.1%})",
    )


def _run(target: Target, attempt: int) -> dict[str, float]:
    try:
        with quiet():
            return _errors(target, _cases(target, attempt))
    except (TascError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # whatever a model's own code says of inputs it was not made for
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise _refused(target, f"cannot be run on a tree of drafts ({reason})") from error


def _tolerance(model: PreTrainedModel) -> float:
    """Return how far logits may be off by rounding alone, as a share of their spread."""
    coarsest = torch.finfo(torch.bfloat16).eps
    rounding = min(torch.finfo(model.dtype).eps, coarsest)
    if getattr(model, "is_quantized", False) or torch.get_float32_matmul_precision() != "highest":
        rounding = coarsest
    return max(EXACT, COARSE * rounding)


def _refused(target: Target, what: str) -> UnavailableError:
    return UnavailableError(f"{type(target.model).__name__} {what}: decode it with transformers")


def _identity(target: Target) -> disk_cache.Identity:
    """What the outcome depends on: the code that runs, and the configuration that steers it."""
    kind = type(target.model)
    return {
        "format": _FORMAT,
        "model": f"{kind.__module__}.{kind.__qualname__}",
        "config": disk_cache.config_hash(target.model.config, without=_SIZES),
        "dtype": str(target.model.dtype),
        "precision": torch.get_float32_matmul_precision(),
        "device": target.device.type,
        "target": type(target).__name__,
        "tasc": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def _cases(target: Target, attempt: int) -> list[Case]:
    """Return a case for each row of a batch, shorter where positions are few."""
    room = target.max_positions - AFTER if target.max_positions else PROMPTS[0]
    tokens, cases = target.any_tokens(32 * (attempt + 1))[32 * attempt :], []
    for length, parents, path in zip(PROMPTS, PARENTS, PATHS, strict=True):
        prompt, last, nodes, then, tokens = np.split(
            tokens, np.cumsum([min(length, room), 1, len(parents), 1])
        )
        cases.append(Case(prompt, int(last[0]), nodes, parents, path, int(then[0])))
    return cases


@torch.inference_mode()
def _errors(target: Target, cases: Sequence[Case]) -> dict[str, float]:
    """Return how far the logits are off, as a share of their spread, by what was run."""
    texts = [case.texts() for case in cases]
    with target.untouched() as model:
        own = _plain(model, [text for of_case in texts for text in of_case])
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "a tree of drafts": lambda: _alone(target, cases[0]),
        "rows of a batch": lambda: _together(target, cases),
    }
    return {what: _off(run().float().cpu(), own) for what, run in ways.items()}


def _plain(model: PreTrainedModel, texts: Sequence[Text]) -> torch.Tensor:
    """Return the logits (n, V) after each text, on the CPU, by one forward of the model's own.

    What pads a text stands behind it, and a causal model does not look there.
    """
    whole = [t for t in texts if not any(len(o) > len(t) and o[: len(t)] == t for o in texts)]
    width = max(map(len, whole))
    ids = torch.tensor([t + t[-1:] * (width - len(t)) for t in whole], device=model.device)
    logits = model(input_ids=ids, use_cache=False).logits
    holder = [next(i for i, w in enumerate(whole) if w[: len(t)] == t) for t in texts]
    found: torch.Tensor = logits[holder, [len(t) - 1 for t in texts]].float().cpu()
    if not found.isfinite().any(-1).all():
        raise UnavailableError(
            f"{type(model).__name__} gives logits that are no numbers, without any draft: check "
            "its weights and its dtype"
        )
    return found


def _alone(target: Target, case: Case) -> torch.Tensor:
    """Return the logits (r, V) of a case as a single sequence."""
    rows = [target.prefill(case.prompt, AFTER)]
    rows.append(target.score([case.last], [(case.tokens, case.parents)])[0].clone())
    target.keep([case.path])
    rows.append(target.score([case.then], [(_NONE, _NONE)])[0])
    return torch.cat(rows)


def _together(target: Target, cases: Sequence[Case]) -> torch.Tensor:
    """Return the logits (r, V) of all cases, one after the other, as rows of a batch."""
    target.begin(PROMPTS[0] + AFTER, len(cases))
    first = target.join([case.prompt for case in cases])
    trees = target.score([c.last for c in cases], [(c.tokens, c.parents) for c in cases])
    target.keep([case.path for case in cases])
    after = target.score([case.then for case in cases], [(_NONE, _NONE)] * len(cases))
    rows = [
        row
        for i, case in enumerate(cases)
        for row in (first[i : i + 1], trees[i, : 1 + len(case.tokens)], after[i])
    ]
    return torch.cat(rows)


def _off(found: torch.Tensor, own: torch.Tensor) -> float:
    """Return how far the worst row of ``found`` (r, V) is off the first r of ``own``.

    The root of the mean square over the row, as a share of the spread of all logits; tokens whose
    own logits are not finite are left out.
    """
    own = own[: len(found)]
    known = own.isfinite()
    gap = torch.where(known, found - own, 0).nan_to_num(nan=torch.inf)
    spread = own[known].std(correction=0)
    worst = gap.square().mean(-1).sqrt().max()
    return float(worst / spread.clamp(min=1e-12))
