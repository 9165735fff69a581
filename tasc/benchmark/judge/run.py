"""Outputs of a bench before a judge: every sample in two orders, and what came of it."""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

import numpy as np

from tasc.benchmark.judge import record
from tasc.benchmark.judge.bench import find_prompts, judged_cells
from tasc.benchmark.judge.client import Judge
from tasc.benchmark.judge.options import JudgeOptions
from tasc.benchmark.judge.results import JudgedSample, Judgement, JudgeResults, JudgeSettings
from tasc.benchmark.judge.rubric import Question
from tasc.benchmark.load.results import Endpoint
from tasc.benchmark.paired.compare import read_results
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.conditions import Sample, run_facts
from tasc.benchmark.results.record import Record
from tasc.data.corpus import Corpus
from tasc.errors import InputError, UnavailableError
from tasc.files import journal
from tasc.progress import Progress, silent

_REPLY = 80  # characters of a reply that an error shows
_PATIENCE = 10  # failures in a row, after which nobody answers any more

Key = tuple[int, int]  # number of a sample; 0 or 1: which of its orders


class _Line(Record):
    model: str
    key: Key
    judgement: Judgement


class Judgements:
    """A file of judgements of one model, in a folder of checkpoints."""

    def __init__(self, work: Path, model: str, *, resume: bool) -> None:
        """Begin anew, or read what is there.

        Raises InputError where that is damaged, or another model's.
        """
        self._model = model
        self._lines = journal.Journal(work / "judgements.jsonl", _Line, resume=resume)
        for line in self._lines.lines:
            if line.model != model:
                raise InputError(
                    f"the run before asked {line.model}, and this one would ask {model}: name that "
                    "with --model, or leave --resume out"
                )
        self.known = {line.key: line.judgement for line in self._lines.lines}

    def add(self, key: Key, judgement: Judgement) -> None:
        """Keep a judgement."""
        self.known[key] = judgement
        self._lines.add(_Line(model=self._model, key=key, judgement=judgement))


@dataclass(frozen=True)
class Request:
    """A question about answers, (model, text) each, in one of the two orders of a sample."""

    key: Key
    question: Question
    answers: Sequence[tuple[str, str]]


def judge(
    data: Corpus,
    options: JudgeOptions,
    work: Path,
    *,
    resume: bool = False,
    progress: Progress = silent,
) -> JudgeResults:
    """Have the outputs of a bench judged, whose prompts are in ``data``.

    Judgements are kept in ``work``, from which the next call may ``resume``. Not to be called where
    an event loop runs already, as in a coroutine.

    Raises:
        UnavailableError: the judge does not answer, none of its replies holds scores, or the
            client is not installed.
        InputError: the results hold no two models, or other samples than ``data``.
    """
    facts = run_facts()
    found = read_results(options.results)
    cells = judged_cells(found, options.only)
    prompts = find_prompts(found.samples, options.results, data)
    chosen = _chosen(len(prompts), options)
    requests = list(_requests(cells, found.samples, prompts, chosen, options))
    endpoint, known = asyncio.run(_ask_all(requests, options, work, resume, progress))
    samples = tuple(
        JudgedSample(id=found.samples[i].id, judgements=(known[i, 0], known[i, 1])) for i in chosen
    )
    return JudgeResults(
        results=options.results,
        source=data.source.path,
        judge=endpoint,
        settings=JudgeSettings(**{n: getattr(options, n) for n in JudgeSettings.model_fields}),
        **record.figures(cells, samples),
        samples=samples,
        **facts,
    )


def _chosen(samples: int, options: JudgeOptions) -> list[int]:
    number = min(samples, options.limit or samples)
    return sorted(random.Random(options.seed).sample(range(samples), number))


def _requests(
    cells: Sequence[Cell],
    samples: Sequence[Sample],
    prompts: Sequence[str],
    chosen: Sequence[int],
    options: JudgeOptions,
) -> Iterator[Request]:
    """Draw an order of the answers to each prompt, and take its reverse, too."""
    drawn = np.random.default_rng(options.seed)
    for i in chosen:
        reference = samples[i].reference if options.show_reference else None
        question = Question(prompts[i], options.instruction, options.domain, reference)
        order = drawn.permutation(len(cells))
        for turn, models in enumerate((order, order[::-1])):
            answers = [(cells[k].model, cells[k].texts[i]) for k in models]
            yield Request((i, turn), question, answers)


async def _ask_all(
    requests: Sequence[Request], options: JudgeOptions, work: Path, resume: bool, progress: Progress
) -> tuple[Endpoint, Mapping[Key, Judgement]]:
    """Ask for what is not known yet; what failed is not kept for a later run."""
    server = Judge(
        options.address,
        options.model,
        timeout=options.timeout,
        max_new_tokens=options.max_new_tokens,
    )
    async with server:
        kept = Judgements(work, server.model, resume=resume)
        failed: dict[Key, Judgement] = {}
        waiting = iter([request for request in requests if request.key not in kept.known])
        in_a_row = 0

        async def user() -> None:
            nonlocal in_a_row
            for request in waiting:
                made = await server.judge(request.question, request.answers)
                in_a_row = in_a_row + 1 if made.error else 0
                if made.error:
                    failed[request.key] = made
                else:
                    kept.add(request.key, made)
                if in_a_row >= _PATIENCE + options.concurrency:
                    return
                progress("judge", len(kept.known) + len(failed), len(requests))

        async with asyncio.TaskGroup() as users:
            for _ in range(options.concurrency):
                users.create_task(user())
        if in_a_row >= _PATIENCE + options.concurrency or not kept.known:
            told = f"{server.silent([*failed.values()][-1].error)}"
            there = f"; give --resume to go on from {len(kept.known)} judgements"
            raise UnavailableError(told + there if kept.known else told)
        if not any(one.scores for one in kept.known.values()):
            reply = shorten(next(iter(kept.known.values())).replies[-1], _REPLY)
            raise UnavailableError(
                f"no reply of {server.model} holds scores, such as {reply!r}: name a larger model "
                "with --model, or give --max-new-tokens room for its reasons"
            )
        return server.endpoint, kept.known | failed
