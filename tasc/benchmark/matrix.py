"""Models × methods: run every cell on every sample, in turn, so that drift hits all alike."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from tasc.benchmark.options import BenchOptions
from tasc.benchmark.paired.statistics import turn_length
from tasc.data.choices import find_choices
from tasc.data.corpus import Corpus
from tasc.decoding.choices import Labels
from tasc.decoding.core.grammar import Grammar
from tasc.decoding.core.protocols import Verifier
from tasc.decoding.core.resources import DraftSource
from tasc.decoding.decode import Generation, Request, generate_all
from tasc.decoding.drafters import Factory, Method, Resources, parse
from tasc.decoding.drafters.ngram.index import load_index
from tasc.decoding.library import chosen, policy_of
from tasc.decoding.loaded import Loaded
from tasc.decoding.policy import Policy
from tasc.errors import InputError
from tasc.files.journal import Journal
from tasc.models.inputs import common_prefix
from tasc.options.constraint import Constraint
from tasc.options.references import parse_path
from tasc.progress import Progress, silent

_CALIBRATED = 100  # training examples by which the probabilities of labels are calibrated
Turn = tuple[int, int, int]  # repeat, first sample, index of the cell


@dataclass
class Cell:
    """One model with one method, and what it produced: a list of generations a repeat."""

    model: Loaded
    method: Method
    factory: Factory
    resources: Resources
    prompts: Sequence[np.ndarray]  # of all samples in the model's tokens, (L_i,) int32 each
    policy: Policy = field(default_factory=Policy)
    labels: Labels | None = None  # of a method that chooses among them
    runs: list[list[Generation]] = field(default_factory=list)

    @property
    def calibrates(self) -> bool:
        """Whether it chooses among labels with calibrated probabilities."""
        return self.method.chooses and self.method.options.calibrate

    def forget(self) -> None:
        """Restart what learns from outputs: it has seen the next ones."""
        if self.method.learns:
            self.factory = self.method.prepare(self.resources)
        self.policy = self.policy.fresh()


class _Line(BaseModel):
    turn: Turn
    generations: list[Generation]


class Measured(dict[Turn, list[Generation]]):
    """The generations of each turn; a new turn is appended to the checkpoint file."""

    def __init__(self, work: Path, *, resume: bool) -> None:
        """Start an empty file, or read the existing one. Raises InputError if it is damaged."""
        self._journal = Journal(work / "generations.jsonl", _Line, resume=resume)
        super().__init__((line.turn, line.generations) for line in self._journal.lines)
        self.resumed = len(self)

    def __setitem__(self, turn: Turn, generations: list[Generation]) -> None:
        self._journal.add(_Line(turn=turn, generations=generations))
        super().__setitem__(turn, generations)


def prepare(
    models: Sequence[Loaded],
    corpus: Corpus,
    test: Corpus,
    options: BenchOptions,
    progress: Progress = silent,
    draft: DraftSource | None = None,
) -> list[Cell]:
    """Make every cell, which has not run yet; drafters know ``corpus``.

    Indexes stand for the corpus where a method counts n-grams; ``draft`` is what methods with a
    vocabulary of their own draft with.
    """
    methods, cells = [parse(text) for text in options.methods], list[Cell]()
    constraint, texts = options.constraint, list[str]()
    if options.choices:
        texts = find_choices(options.choices, corpus.source, corpus.split)
        if not all(method.chooses for method in methods):
            constraint = Constraint.of_strings(texts, f"choices {options.choices}")
    if constraint:
        constraint = constraint.written_as(corpus.outputs)
    for model in models:
        resources = Resources(
            model.encode(corpus.outputs),
            model.end_ids[0],
            indexes=[load_index(Path(parse_path(i)[1]), model.tokenizer) for i in options.indexes],
            target=model.target,
            progress=progress,
            draft_head=Path(options.draft_head) if options.draft_head else None,
            token_counts=Path(options.token_counts) if options.token_counts else None,
            tokenizer=model.tokenizer,
            draft=draft,
            sampling=options.sampling,
            grammar=Grammar(constraint, model.tokenizer, model.end_ids) if constraint else None,
        )
        labels = Labels(model.encode(texts), model.end_ids[0]) if texts else None
        cells += _cells(model, methods, resources, labels, model.encode(test.prompts))
    _calibrate([cell for cell in cells if cell.calibrates], corpus, texts, options, progress)
    return cells


def _calibrate(
    cells: Sequence[Cell],
    corpus: Corpus,
    labels: Sequence[str],
    options: BenchOptions,
    progress: Progress,
) -> None:
    """Calibrate the labels of ``cells`` on examples of ``corpus``, drawn by the seed."""
    if not cells:
        return
    if not corpus.examples:
        raise InputError(
            f"method {cells[0].method.label!r} needs training examples, but the split "
            f"{corpus.split} has none: give another --corpus-split, or leave out calibrate"
        )
    drawn = random.Random(options.seed).sample(
        corpus.examples, min(_CALIBRATED, len(corpus.examples))
    )
    counts = Counter(output.strip() for output in corpus.outputs)
    shares = np.array([counts[label.strip()] + 1.0 for label in labels])  # none has a share of 0
    for done, cell in enumerate(cells):
        progress("calibrate labels", done, len(cells))
        assert cell.labels is not None
        prompts = cell.model.encode([example.prompt for example in drawn])
        cell.labels = cell.labels.calibrated(cell.model.target, prompts, shares / shares.sum())


def _cells(
    model: Loaded,
    methods: Sequence[Method],
    resources: Resources,
    labels: Labels | None,
    prompts: Sequence[np.ndarray],
) -> Iterator[Cell]:
    """Make the cells of one model; each method has a policy of its own."""
    if any(method.adaptive for method in methods):
        resources.progress(f"measuring T(k) of {model.label}", 0, 0)
    policies = {m.label: policy_of(m, model.target) for m in methods}
    for m in methods:
        yield Cell(
            model,
            m,
            m.prepare(resources),
            resources,
            prompts,
            policies[m.label],
            labels=labels if m.chooses else None,
        )


def run(
    cells: list[Cell],
    options: BenchOptions,
    measured: MutableMapping[Turn, list[Generation]] | None = None,
    progress: Progress = silent,
) -> list[Cell]:
    """Decode all prompts with every cell, or those for which ``options.minutes`` suffice.

    ``measured`` turns are not repeated; others are added.
    """
    turns = {} if measured is None else measured
    for part in cut(slice(0, len(cells[0].prompts)), options.slice):
        decode_slice(cells, part, options, turns, progress)
    for cell in cells:
        cell.prompts = cell.prompts[: len(cell.runs[0])]
    return cells


def cut(part: slice, length: int | None) -> list[slice]:
    """Cut a range of samples into ranges of ``length``; None does not cut it."""
    step = length or max(part.stop - part.start, 1)
    return [slice(i, min(i + step, part.stop)) for i in range(part.start, part.stop, step)]


def decode_slice(
    cells: Sequence[Cell],
    part: slice,
    options: BenchOptions,
    measured: MutableMapping[Turn, list[Generation]],
    progress: Progress = silent,
) -> None:
    """Decode a slice of the samples with every cell, and append the outputs to the cells' runs.

    One machine decodes a slice, and drafters that learn from outputs start again in each. Tokens
    with which all prompts begin are read once per model, before anything is measured. If decoding
    takes longer than ``options.minutes``, the slice ends with the turn at which their share for
    one repeat is over.
    """
    left = 60 * options.minutes / options.repeats if options.minutes else math.inf
    samples, length = part.stop - part.start, turn_length(options.batch_size)
    turns = cut(part, length)
    every = list(itertools.product(range(options.repeats), turns, range(len(cells))))
    unfinished = {(n, i) for n, turn, i in every if (n, turn.start, i) not in measured}
    share(cells)
    warmup = options.warmup if unfinished else 0
    warm = slice(part.start, min(part.start + warmup, part.stop))
    for turn, cell in itertools.product(cut(warm, length), cells):
        progress(f"warm-up, {cell.model.label} with {cell.method.label}", 0, 0)
        decode(cell, cell.prompts, turn, options)
    done = sum(turn.stop - turn.start for n, turn, i in every if (n, turn.start, i) in measured)
    outputs = options.repeats * samples * len(cells)
    progress("decode", done, outputs)
    order = np.random.default_rng(options.seed)
    for repeat in range(options.repeats):
        for cell in cells:
            cell.forget()
            if len(cell.runs) == repeat:
                cell.runs.append([])
        for turn in turns:
            # A new order for each turn, so that no cell always follows the same one. Samples
            # stay in order, because drafters that learn from outputs depend on it.
            for i in order.permutation(len(cells)).tolist():
                cell, key = cells[i], (repeat, turn.start, i)
                if key not in measured:
                    measured[key] = decode(cell, cell.prompts, turn, options)
                    done += turn.stop - turn.start
                    progress("decode", done, outputs)
                elif cell.method.learns and (repeat, i) in unfinished:
                    progress("decode again, for methods that learn from outputs", done, outputs)
                    decode(cell, cell.prompts, turn, options)
                cell.runs[repeat] += measured[key]
                left -= sum(generation.timeline.total for generation in measured[key])
            if repeat == 0 and left < 0:
                turns = cut(slice(part.start, turn.stop), length)
                break


def share(cells: Sequence[Cell]) -> None:
    """Read the tokens with which all prompts of a model begin, for all of its methods alike."""
    for cell in firsts(cells).values():
        cell.model.target.share(common_prefix(cell.prompts))


def firsts(cells: Sequence[Cell]) -> dict[str, Cell]:
    """Return the first cell of each model, by its label: the one that others are compared with.

    A method that chooses among labels is the first one only if there is no other.
    """
    first: dict[str, Cell] = {}
    for cell in sorted(cells, key=lambda cell: cell.method.chooses):
        first.setdefault(cell.model.label, cell)
    return first


def decode(
    cell: Cell,
    prompts: Sequence[np.ndarray],
    turn: slice,
    options: BenchOptions,
    verifiers: Callable[[int, Verifier], Verifier] = lambda _sample, verify: verify,
) -> list[Generation]:
    """Decode one turn of ``prompts``. Random numbers depend on the sample, not on the turn.

    ``verifiers`` may replace the verifier of a sample.
    """
    mine = prompts[turn]
    if cell.labels is not None:
        labels, prune = cell.labels, cell.method.options.prune
        choose = labels.choose_pruned if prune else labels.choose
        return choose(cell.model.target, mine, options.batch_size)
    samples = range(turn.start, turn.start + len(mine))
    rules = [verifiers(i, chosen(options.verify, options.sampling, i)) for i in samples]
    requests = [
        Request(
            prompt,
            cell.factory,
            rule,
            processors=cell.model.processors(prompt, options.max_new_tokens),
            grammar=cell.resources.grammar,
        )
        for prompt, rule in zip(mine, rules, strict=True)
    ]
    return generate_all(
        cell.model.target,
        requests,
        max_new_tokens=options.max_new_tokens,
        end_ids=cell.model.end_ids,
        budget=cell.method.budget,
        batch_size=options.batch_size,
        policy=cell.policy,
    )
