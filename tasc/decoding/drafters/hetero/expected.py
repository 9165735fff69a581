"""The expected acceptance probability of a drafted token, for each algorithm, on given texts.

Timor et al., arXiv:2502.05202, table 2, averaged over positions: union Σ min(p, q) and TLI
Σ min(p, q') over the intersection, SLEM Σ p · ψ, SLRS Σ min(p, ψ), standard Σ min(p, q).
"""

from collections.abc import Sequence

import numpy as np
import torch

from tasc.decoding.core.sampling import Sampling
from tasc.decoding.drafters.hetero.options import HeteroOptions, SlrsOptions
from tasc.decoding.drafters.hetero.pair import DraftSession, Pair
from tasc.decoding.drafters.hetero.segmentation import Segmentation
from tasc.decoding.drafters.hetero.token_level import TokenLevel
from tasc.models.target import Target
from tasc.progress import Progress, silent

COVERED, MOST = 0.99, 64  # ψ is summed over the top 99 % of p, at most 64 tokens
FLOOR = 1e-4


def expected_acceptance(
    pair: Pair,
    target: Target,
    texts: Sequence[tuple[np.ndarray, np.ndarray]],
    positions: int,
    progress: Progress = silent,
) -> dict[str, float]:
    """Return the mean α of each algorithm over ``positions`` positions of each text.

    ``texts`` are pairs of prompt (L,) and output (T,) int32; positions are in the output. For SLEM
    and SLRS the sum omits the target's least likely tokens: less than 0.01 of its probability, or
    all tokens but the 64 most likely.
    """
    alphas: list[dict[str, float]] = []
    sampling = pair.sampling or Sampling()
    for i, (prompt, output) in enumerate(texts):
        chosen = np.unique(np.linspace(0, len(output) - 1, positions).round().astype(int))
        text = np.concatenate([prompt, output])
        target.check(text, 0)
        ids = torch.from_numpy(text.astype(np.int64))[None].to(target.device)
        with torch.inference_mode():
            logits = target.model(input_ids=ids, use_cache=False).logits[0]
        session = DraftSession(pair)
        session.observe(prompt)
        seen = 0
        for position in chosen.tolist():
            p = sampling.distribution(logits[len(prompt) - 1 + position]).double().cpu().numpy()
            session.observe(output[seen:position])
            seen = position
            if (node := session.root()) is not None:
                alphas.append(_at(session, node, p))
        progress("expected acceptance", i + 1, len(texts))
    names = ("union", "tli", "slem", "slrs")
    return {name: float(np.mean([a[name] for a in alphas])) if alphas else 0.0 for name in names}


def _at(session: DraftSession, node: int, p: np.ndarray) -> dict[str, float]:
    alphas = {}
    for name, normalise in (("union", False), ("tli", True)):
        drafter = TokenLevel(session.pair, HeteroOptions(), session.pair.to_target, normalise)
        drafter.session = session
        distribution = drafter.distribution(node)
        q = np.zeros(len(p)) if distribution is None else drafter.over_target(distribution).numpy()
        alphas[name] = float(np.minimum(p, q).sum())
    order = np.argsort(-p)[:MOST]
    likely = order[: int(np.searchsorted(p[order].cumsum(), COVERED)) + 1]
    psi = np.array([_psi(session, node, token) for token in likely.tolist()])
    alphas["slem"] = float((p[likely] * psi).sum())
    alphas["slrs"] = float(np.minimum(p[likely], psi).sum())
    return alphas


def _psi(session: DraftSession, node: int, token: int) -> float:
    """Return ψ of ``token`` after ``node``, at most FLOOR too low."""
    bounds = Segmentation(session, SlrsOptions(floor=FLOOR), node, token).bounds()
    return next(low for low, high in bounds if high - low < FLOOR)
