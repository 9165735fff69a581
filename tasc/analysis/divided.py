"""The outputs to choose new tokens and drafts from, and others to judge them on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tasc.analysis.outputs import Distinct
from tasc.analysis.sample import Sample
from tasc.data.corpus import Corpus, Example
from tasc.data.division import TRAIN, VALIDATION, divide
from tasc.data.stream import Stream


@dataclass(frozen=True)
class Divided:
    """A split without its held-out rows, and the rows that are held out for validation."""

    train: Distinct  # outputs: all, or a sample that fits in memory
    held_out: Corpus | None  # None if another split is the validation


def divide_outputs(stream: Stream, names: Sequence[str], seed: int) -> Divided:
    """Hold out the splits ``names`` of "validation" and "test"; see ``tasc.data.division``.

    Reads the split twice.
    """
    division = divide((o for rows in stream.rows() for o in rows.origins), names, seed)
    train, validation = Sample(), list[Example]()
    for rows in stream.rows():
        learnt: Counter[str] = Counter()
        for i, (origin, output) in enumerate(zip(rows.origins, rows.outputs, strict=True)):
            split = division.split_of(origin)
            if split == TRAIN:
                learnt[output] += 1
            elif split == VALIDATION:
                validation.append(Example(rows.inputs[i], output, rows.prompt(i)))
        train.add(learnt)
    held_out = Corpus(stream.source, VALIDATION, tuple(validation), fingerprint="")
    return Divided(train.finish(), held_out if VALIDATION in names else None)


def outputs_by_split(corpus: Corpus, names: Sequence[str], seed: int) -> dict[str, list[str]]:
    """Return the outputs of train and of the held-out splits ``names``, as ``divide_outputs``."""
    division = divide((example.origin for example in corpus.examples), names, seed)
    outputs: dict[str, list[str]] = {name: [] for name in (TRAIN, *names)}
    for example in corpus.examples:
        outputs[division.split_of(example.origin)].append(example.output)
    return outputs
