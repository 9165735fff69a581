"""Two models' vocabularies side by side, and how much of a draft would be accepted."""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from tasc.benchmark.options import VocabularyOptions
from tasc.benchmark.results.conditions import SplitTask
from tasc.data.corpus import Corpus
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.drafters import Resources
from tasc.decoding.drafters.hetero.expected import expected_acceptance
from tasc.decoding.drafters.hetero.options import HeteroOptions
from tasc.decoding.drafters.hetero.source import load_draft, pair_of
from tasc.errors import InputError
from tasc.models.folder.fetch import local_folder
from tasc.models.load import load_model
from tasc.models.targets.fastest import target_for
from tasc.options.references import resolve_tokenizer
from tasc.progress import Progress, silent
from tasc.report.record import Report
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.vocab.pairing import Pairing, pairing, recommend

_POSITIONS = 8  # of each output, at which acceptance is measured
_TEMPERATURE = 1.0  # of both models' distributions


class Comparison(Pairing, Report):
    """Two vocabularies on a corpus."""

    task: SplitTask
    expected_acceptance: dict[str, float] | None
    """Of each algorithm; None unless both are models."""
    temperature: float
    """Of the expected acceptance."""
    algorithm: str
    """The recommended one."""
    reason: str


def compare(corpus: Corpus, options: VocabularyOptions, progress: Progress = silent) -> Comparison:
    """Compare the tokenizers of two folders or Hub ids on a corpus.

    Where both are models, the expected acceptance of each algorithm is measured at some positions
    in the outputs of ``options.prompts`` examples.
    """
    paths = [resolve_tokenizer(name) for name in (options.target, options.draft)]
    ours, theirs = (load_tokenizer(path).ending(corpus.end) for path in paths)
    texts = [e.prompt + e.output for e in corpus.examples]
    progress("tokenizing", 0, 0)
    pair = pairing(ours, theirs, texts)
    acceptance = None
    if all((local_folder(path) / "config.json").is_file() for path in paths):  # not tokenizers
        acceptance = _acceptance(paths, ours, corpus, options, progress)
    algorithm, reason = recommend(pair, acceptance)
    return Comparison(
        **dict(pair),
        task=SplitTask(source=corpus.source.path, split=corpus.split, samples=len(texts)),
        expected_acceptance=acceptance,
        temperature=_TEMPERATURE,
        algorithm=algorithm,
        reason=reason,
    )


def _acceptance(
    paths: Sequence[str],
    tokenizer: LoadedTokenizer,
    corpus: Corpus,
    options: VocabularyOptions,
    progress: Progress,
) -> dict[str, float]:
    target, draft = paths
    model = target_for(load_model(target, dtype="float32", tokenizer=tokenizer), graphs="off")
    resources = Resources(
        [],
        tokenizer.eos_id,
        target=model,
        tokenizer=tokenizer,
        draft=load_draft(draft),
        sampling=Sampling(_TEMPERATURE),
    )
    most = model.max_positions or 2048
    texts = list(islice(_texts(tokenizer, corpus, most), options.prompts))
    if not texts:
        raise InputError(
            f"{corpus.source.path}: no example of {corpus.split} has an output to measure on and a "
            f"prompt below the model's {most:,} positions: shorten it with --template"
        )
    pair = pair_of(resources, HeteroOptions())
    return expected_acceptance(pair, model, texts, _POSITIONS, progress)


def _texts(
    tokenizer: LoadedTokenizer, corpus: Corpus, most: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield prompt and output of each example in tokens, together at most ``most``."""
    for example in corpus.examples:
        prompt, output = tokenizer.encode([example.prompt, example.output]).split()
        if not len(prompt):  # a forward needs at least one token
            prompt, output = output[:1], output[1:]
        if len(output) and len(prompt) < most:
            yield prompt, output[: most - len(prompt)]
