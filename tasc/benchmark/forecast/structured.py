"""Predict what a constraint on outputs saves, from the simulator that counts like the loop."""

from collections.abc import Sequence
from dataclasses import replace

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
_METHODS = (("constraint", "grammar", True), ("n-grams", _NGRAMS, False), ("both", _NGRAMS, True))


def predict_structured(
    simulations: Simulations, grammar: Grammar, augmented: tuple[Simulations, Grammar] | None = None
) -> Structured:
    """Simulate drafts under ``grammar`` on the references that satisfy it.

    With T(k) of a model, also predict the speed-up over decoding without drafts.
    ``augmented`` has the same references and constraint with new tokens.
    """
    every, cost, name = simulations.references, simulations.cost, grammar.constraint.title
    fits = [grammar.accepts(output.tolist()) for output in every.outputs]
    valid = [i for i, fit in enumerate(fits) if fit]
    share = len(valid) / max(len(fits), 1)
    others = (o.tolist() for o, fit in zip(every.outputs, fits, strict=True) if not fit)
    decode, reasons = grammar.tokenizer.decode, list[str]()
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
    own = _some(simulations, valid)
    tried = [(*method, own, grammar) for method in _METHODS]
    if augmented:
        more, with_tokens = augmented
        tried += [("both, with new tokens", _NGRAMS, True, _some(more, valid), with_tokens)]
    prompts, targets = own.references.unread, own.references.targets()
    plain = simulate(Autoregressive, own.references, 0)
    rows = []
    for label, method, constrained, runs, fitting in tried:
        drafts, given = parse(method), fitting if constrained else None
        known = Resources(runs.known, runs.references.end, grammar=given)
        steps = simulate(drafts.prepare(known), runs.references, drafts.budget)
        rows.append(PredictedMethod(name=label, **figures(steps, plain, prompts, cost)))
    saved, total = sum(determined(grammar, target) for target in targets), sum(map(len, targets))
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
