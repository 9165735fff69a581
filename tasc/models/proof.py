"""Check, before decoding with a model, that trees and batches do not change its logits.

A model may ignore the positions of tree nodes or the mask, and would then decode wrongly without
any error. So a few tokens are run both ways: as trees and batches of different lengths through a
target, and as plain text through the model with its own attention and torch's own products.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel

from tasc import __version__
from tasc.data.foreign import one_line
from tasc.errors import TascError, UnavailableError
from tasc.models.folder import disk_cache
from tasc.models.folder.adapters import adapter_kinds
from tasc.models.folder.quiet import quiet
from tasc.models.layers import fuse, is_fused, unfuse
from tasc.models.packed import is_int8, is_packed, plain_products, whole_inputs
from tasc.models.target import Target

PROMPTS = 6, 3  # tokens
PARENTS = np.array([-1, -1, 0, 1], np.int32), np.array([-1, -1], np.int32)
PATHS = (1, 3), (1,)  # accepted nodes: not the first ones, so that keys move
CHAINS = np.array([-1, 0, 1, 2], np.int32), np.array([-1, 0], np.int32)
CHAIN_PATHS = (0,), (0, 1)  # a part of a chain, so that states are restored, and all of one
AFTER = 5  # positions that a draft and the tokens around it need
EXACT = 1e-3  # allowed error as a share of the logits' spread
COARSE = 32  # allowed error in roundings, for dtypes of few bits
TRIES = 3  # with coarse rounding, which may legitimately route a token to another expert
_FORMAT = 4  # of the cache entry
_NONE = np.empty(0, np.int32)
_SIZES = frozenset({"vocab_size", "bos_token_id", "eos_token_id", "pad_token_id"})
_PROVED: dict[str, dict[str, object]] = {}  # of this process; the cache may be read-only
_REFUSED: dict[str, str] = {}  # of this process, with the reason

Text = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A prompt (L,), the ``last`` token, a tree, its accepted ``path``, and one token ``then``."""

    prompt: np.ndarray
    last: int
    tokens: np.ndarray
    parents: np.ndarray
    path: tuple[int, ...]
    then: int

    def texts(self) -> list[Text]:
        """Return the text before each row of logits: of the prompt, the tree, the token after."""

        def text_at(node: int) -> Text:
            if node < 0:
                return (*self.prompt.tolist(), self.last)
            return (*text_at(int(self.parents[node])), int(self.tokens[node]))

        nodes = [text_at(node) for node in range(-1, len(self.tokens))]
        return [tuple(self.prompt.tolist()), *nodes, (*text_at(self.path[-1]), self.then)]


class WrongCodeError(UnavailableError):
    """The code of a model, whatever its weights are, cannot serve as a target."""


def prove(target: Target) -> None:
    """Check that ``target`` gives its model's own logits, once per architecture.

    A model that only fails without padding keeps it. A success is stored in the user's cache. The
    target loses its sequences. A model with too few positions for a tree passes, as it will decode
    none. Raises WrongCodeError if logits differ from its own by more than rounding, and
    UnavailableError if its own are not finite, or if it is in 8 bits and a row's logits depend in
    their last bits on other rows: rounded inputs make that as large as their rounding.
    """
    if 0 < target.max_positions <= AFTER:
        return
    identity = _identity(target)
    path = disk_cache.entry("proof", identity)
    if path.name in _REFUSED:
        raise WrongCodeError(_REFUSED[path.name])
    try:
        _prove_once(target, path, identity)
    except WrongCodeError as error:
        _REFUSED[path.name] = str(error)
        raise


def _prove_once(target: Target, path: Path, identity: disk_cache.Identity) -> None:
    if path.name not in _PROVED:
        entry = disk_cache.read(path) or {}
        if entry.get("of") != identity:
            with _whole_inputs(target):
                errors = _prove_flattened(target)
            entry = {"errors": errors, "flattens": target.flattens}
            if is_int8(target.model):
                entry["keeps_bits"] = _keeps_bits(target)
            disk_cache.write(path, entry, identity)
        _PROVED[path.name] = entry
    proved = _PROVED[path.name]
    if not proved.get("keeps_bits", True):
        raise UnavailableError(
            f"{type(target.model).__name__} computes a row in other ways alone than among others, "
            "so outputs in 8 bits would change with drafts: use --dtype float32"
        )
    target.flattens = target.flattens and bool(proved.get("flattens"))


@torch.inference_mode()
def _keeps_bits(target: Target) -> bool:
    """Return whether rows have the same bits one token at a time and in a batch of drafts."""
    cases = _cases(target, 0)
    together = _decoded(target, cases)
    for case in cases:
        rows, together = together[: len(case.tokens) + 3], together[len(case.tokens) + 3 :]
        target.begin(PROMPTS[0] + AFTER)
        alone = [target.join([case.prompt])[0].clone()]
        for token in (case.last, *case.tokens[list(case.path)], case.then):
            alone.append(target.score([int(token)], [(_NONE, _NONE)])[0, 0].clone())
            target.keep([[]])
        same = rows[[0, 1, *(2 + node for node in case.path), -1]]
        if not torch.equal(torch.stack(alone), same):
            return False
    return True


@contextmanager
def _whole_inputs(target: Target) -> Iterator[None]:
    """Keep rounded inputs of layers in 8 bits, which would hide errors, out of the block."""
    model = target.model
    if not is_int8(model):
        yield
        return
    fused = is_fused(model)
    unfuse(model)
    try:
        with whole_inputs(model):
            if fused:
                fuse(model)
            yield
    finally:
        unfuse(model)
        if fused:
            fuse(model)


def _prove_flattened(target: Target) -> dict[str, float]:
    try:
        return _prove(target)
    except WrongCodeError:
        if not target.flattens:
            raise
        target.flattens = False
        return _prove(target)


def _prove(target: Target) -> dict[str, float]:
    allowed = _tolerance(target.model)
    for attempt in range(1 if allowed == EXACT else TRIES):
        errors = _run(target, attempt)
        kind, worst = max(errors.items(), key=lambda item: item[1])
        if worst <= allowed:
            return errors
    raise wrong_code(
        target.model,
        f"gives different logits for {kind} than for plain text (off by {worst:.1%} of their "
        f"spread; rounding explains {allowed:.1%})",
    )


def _run(target: Target, attempt: int) -> dict[str, float]:
    try:
        with quiet():
            return _errors(target, _cases(target, attempt))
    except (TascError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a model's code may raise anything on inputs it does not expect
        raise wrong_code(target.model, f"cannot run on {_what(target)}", error) from error


def _tolerance(model: PreTrainedModel) -> float:
    """Return the error that rounding alone may cause, as a share of the logits' spread."""
    coarsest = torch.finfo(torch.bfloat16).eps
    rounding = min(torch.finfo(model.dtype).eps, coarsest)
    if getattr(model, "is_quantized", False) or torch.get_float32_matmul_precision() != "highest":
        rounding = coarsest
    return max(EXACT, COARSE * rounding)


def wrong_code(model: PreTrainedModel, what: str, error: Exception | None = None) -> WrongCodeError:
    """Return the error that a model does ``what``, with the reason that its own error gives."""
    reason = f" ({one_line(error)})" if error else ""
    return WrongCodeError(f"{type(model).__name__} {what}{reason}: decode it with transformers")


def _what(target: Target) -> str:
    return "a chain of drafts" if target.chains_only else "a tree of drafts"


def _identity(target: Target) -> disk_cache.Identity:
    """Return everything that the outcome depends on: the code and its configuration."""
    kind = type(target.model)
    return {
        "format": _FORMAT,
        "model": f"{kind.__module__}.{kind.__qualname__}",
        "adapters": adapter_kinds(target.model),
        "config": disk_cache.config_hash(target.model.config, without=_SIZES),
        "dtype": str(target.model.dtype),
        "precision": torch.get_float32_matmul_precision(),
        "device": target.device.type,
        "invariant": target.invariant,
        "packed": is_packed(target.model),
        "int8": is_int8(target.model),
        "fused": is_fused(target.model),
        "target": type(target).__name__,
        "tasc": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def _cases(target: Target, attempt: int) -> list[Case]:
    """Return one case per sequence of a batch, shorter if the model has few positions."""
    room = target.max_positions - AFTER if target.max_positions else PROMPTS[0]
    tokens, cases = target.any_tokens(32 * (attempt + 1))[32 * attempt :], []
    parents_, paths = (CHAINS, CHAIN_PATHS) if target.chains_only else (PARENTS, PATHS)
    for length, parents, path in zip(PROMPTS, parents_, paths, strict=True):
        prompt, last, nodes, then, tokens = np.split(
            tokens, np.cumsum([min(length, room), 1, len(parents), 1])
        )
        cases.append(Case(prompt, int(last[0]), nodes, parents, path, int(then[0])))
    return cases


@torch.inference_mode()
def _errors(target: Target, cases: Sequence[Case]) -> dict[str, float]:
    """Return the error of the logits as a share of their spread, by kind of input."""
    with target.untouched() as model, plain_products(model):
        if target.chains_only:
            own = torch.cat([_by_tokens(model, case) for case in cases])
        else:
            own = _plain(model, [text for case in cases for text in case.texts()])
    if not own.isfinite().any(-1).all():
        raise UnavailableError(
            f"{type(model).__name__} gives logits that are not finite, even without drafts: check "
            "its weights and its dtype"
        )
    kinds = {_what(target): cases[:1], "a batch": cases}
    errors = {kind: _error(_decoded(target, some), own) for kind, some in kinds.items()}
    if target.drafts_first:
        errors["a prompt with a draft"] = _error(_read(target, cases[0]), own[1:])
    return errors


def _plain(model: PreTrainedModel, texts: Sequence[Text]) -> torch.Tensor:
    """Return the logits (n, V) after each text, on the CPU, from one forward."""
    whole = [t for t in texts if not any(len(o) > len(t) and o[: len(t)] == t for o in texts)]
    width = max(map(len, whole))  # a causal model does not see padding at the end
    ids = torch.tensor([t + t[-1:] * (width - len(t)) for t in whole], device=model.device)
    logits = model(input_ids=ids, use_cache=False).logits
    row = [next(i for i, w in enumerate(whole) if w[: len(t)] == t) for t in texts]
    own: torch.Tensor = logits[row, [len(t) - 1 for t in texts]].float().cpu()
    return own


def _by_tokens(model: PreTrainedModel, case: Case) -> torch.Tensor:
    """Return the logits (n, V) after each text of a case, on the CPU, as ``generate`` has them."""
    # Some recurrent layers compute single tokens and whole texts differently.
    texts, rows = case.texts(), {}
    for text in (texts[-2], texts[-1]):  # the chain, and the token after the accepted part

        def force(ids: torch.Tensor, row: torch.Tensor, text: Text = text) -> torch.Tensor:
            length = ids.shape[1]
            rows[text[:length]] = row[0].float().cpu()
            forced = torch.full_like(row, -torch.inf)
            forced[0, text[length] if length < len(text) else 0] = 0
            return forced

        prompt = torch.from_numpy(case.prompt.astype(np.int64))[None].to(model.device)
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=len(text) - len(case.prompt) + 1,
            do_sample=False,
            eos_token_id=-1,
            pad_token_id=0,
            logits_processor=[force],
        )
    return torch.stack([rows[text] for text in texts])


def _decoded(target: Target, cases: Sequence[Case]) -> torch.Tensor:
    """Return the logits (r, V) of all cases, one after the other, run as a batch."""
    target.begin(PROMPTS[0] + AFTER, len(cases))
    first = target.join([case.prompt for case in cases])
    trees = target.score([c.last for c in cases], [(c.tokens, c.parents) for c in cases]).clone()
    target.keep([case.path for case in cases])
    after = target.score([case.then for case in cases], [(_NONE, _NONE)] * len(cases))
    rows = [
        row
        for i, case in enumerate(cases)
        for row in (first[i : i + 1], trees[i, : 1 + len(case.tokens)], after[i])
    ]
    return torch.cat(rows)


def _read(target: Target, case: Case) -> torch.Tensor:
    """Return the logits (r, V) after the last token of a prompt, each node and ``then``."""
    prompt = np.append(case.prompt, np.int32(case.last))
    target.begin(PROMPTS[0] + AFTER)
    first = target.read(prompt, (case.tokens, case.parents), hidden=True)[0].clone()
    target.keep([case.path])
    return torch.cat([first, target.score([case.then], [(_NONE, _NONE)])[0]])


def _error(logits: torch.Tensor, own: torch.Tensor) -> float:
    """Return the largest RMS error of a row of ``logits`` (r, V), relative to ``own``'s spread."""
    logits = logits.float().cpu()
    own = own[: len(logits)]
    finite = own.isfinite()  # other tokens are ignored
    gap = torch.where(finite, logits - own, 0).nan_to_num(nan=torch.inf)
    spread = own[finite].std(correction=0)
    worst = gap.square().mean(-1).sqrt().max()
    return float(worst / spread.clamp(min=1e-12))
