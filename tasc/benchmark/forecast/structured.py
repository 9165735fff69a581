"""Predict what a constraint on outputs saves, from the simulator that counts like the loop."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tasc.benchmark.forecast.tune import Simulations, figures
from tasc.benchmark.results.search import PredictedMethod, Structured
from tasc.decoding.core.grammar import Grammar
from tasc.decoding.core.misfit import misfits
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters import DEFAULT_BUDGET, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.simulate import simulate

_NGRAMS = f"tasc-spec:budget={DEFAULT_BUDGET}"


@dataclass(frozen=True)
class _Drafts:
    """Drafts to simulate, under a label."""

    label: str
    method: str
    simulations: Simulations
    grammar: Grammar | None  # constraint that the drafts satisfy


def predict_structured(
    simulations: Simulations, grammar: Grammar, augmented: tuple[Simulations, Grammar] | None = None
) -> Structured:
    """Simulate drafts under ``grammar`` on the references that satisfy it.

    With T(k) of a model, also predict the speed-up over decoding without drafts.
    ``augmented`` has the same references and constraint with new tokens.
    """
    every = simulations.references
    cost = simulations.cost
    name = grammar.constraint.title
    fits = [grammar.accepts(output.tolist()) for output in every.outputs]
    valid = [i for i, fit in enumerate(fits) if fit]
    share = len(valid) / max(len(fits), 1)
    others = (o.tolist() for o, fit in zip(every.outputs, fits, strict=True) if not fit)
    decode = grammar.tokenizer.decode
    reasons = list[str]()
    if len(valid) < len(fits):
        texts = (decode(grammar.before_end(tokens)) for tokens in others)
        reasons = misfits(texts, grammar.constraint)
    if not valid:
        return Structured(
            samples=0,
            constraint=name,
            valid=share,
            determined=0,
            decisions=0,
            methods=(),
            misfits=tuple(reasons),
        )
    on_valid = _some(simulations, valid)
    tried = [
        _Drafts("constraint", "grammar", on_valid, grammar),
        _Drafts("n-grams", _NGRAMS, on_valid, None),
        _Drafts("both", _NGRAMS, on_valid, grammar),
    ]
    if augmented:
        more, with_tokens = augmented
        tried.append(_Drafts("both, with new tokens", _NGRAMS, _some(more, valid), with_tokens))
    prompts = on_valid.references.unread
    targets = on_valid.references.targets()
    plain = simulate(Autoregressive, on_valid.references, 0)
    rows = []
    for drafts in tried:
        method = parse(drafts.method)
        references = drafts.simulations.references
        resources = Resources(drafts.simulations.known, references.end, grammar=drafts.grammar)
        steps = simulate(method.prepare(resources), references, method.budget)
        rows.append(PredictedMethod(name=drafts.label, **figures(steps, plain, prompts, cost)))
    saved = sum(determined(grammar, target) for target in targets)
    total = sum(map(len, targets))
    return Structured(
        samples=len(valid),
        constraint=name,
        valid=share,
        determined=saved / total,
        decisions=(total - saved) / len(valid),
        methods=tuple(rows),
        misfits=tuple(reasons),
    )


def _some(simulations: Simulations, chosen: Sequence[int]) -> Simulations:
    sides = simulations.references.prompts, simulations.references.outputs
    prompts, outputs = ([texts[i] for i in chosen] for texts in sides)
    references = replace(simulations.references, prompts=prompts, outputs=outputs)
    return replace(simulations, references=references)


def determined(grammar: Grammar, output: np.ndarray) -> int:
    """Return the number of tokens of ``output`` (T,) int32 that the grammar determines."""
    matcher, count, rest = grammar.matcher(), 0, list[int]()
    for token in output.tolist():
        rest = rest or list[int](grammar.forced(matcher))
        follows: Sequence[int] = rest[:1]
        count += token in follows
        rest = rest[1:] if token in follows else []
        if token not in grammar.ends:
            matcher.try_consume_tokens([token])
    return count
