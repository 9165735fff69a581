"""``tasc load``: do servers give the same outputs on a task's prompts, and how fast are they?

Servers take turns, and are compared sample by sample. The load is a closed loop: each answer starts
the next request, so a slow server gets fewer requests per second, as from users who wait for it.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from tasc.benchmark.endpoint import Client, RequestError, run_requests, text_of
from tasc.benchmark.load_options import LoadOptions
from tasc.benchmark.paired.pairs import Speeds
from tasc.benchmark.paired.prompts import different
from tasc.benchmark.paired.statistics import turn_length
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.conditions import Sample, SplitTask, run_facts
from tasc.benchmark.results.load import (
    Answer,
    Endpoint,
    Equality,
    LoadCell,
    LoadComparison,
    LoadResults,
    LoadSettings,
    Output,
)
from tasc.data.corpus import Corpus
from tasc.errors import InputError
from tasc.options.references import parse_path, results_file
from tasc.progress import Progress, silent

_SHOWN = 5  # samples that differ
Texts = tuple[str | None, ...]  # an output per sample, None where every request failed
Reference = tuple[str, Texts]  # its name and outputs
_RESULTS = TypeAdapter[BenchResults | LoadResults](BenchResults | LoadResults)


@dataclass
class _Server:
    """A client, and the seconds and answers of each pass over the prompts."""

    client: Client
    passes: list[tuple[float, list[Answer]]] = field(default_factory=list)

    @property
    def endpoint(self) -> Endpoint:
        address = self.client.address
        return Endpoint(label=address.label, url=address.url, model=self.client.model)


def load_test(test: Corpus, options: LoadOptions, progress: Progress = silent) -> LoadResults:
    """Send the prompts of ``test`` to every server and compare the answers.

    Do not call it where an event loop runs, as in a coroutine. Raises UnavailableError if a server
    does not answer or the client is not installed, and InputError if the reference has other
    samples, or there are fewer samples than requests in flight.
    """
    facts = run_facts()
    prompts = test.prompts
    samples = tuple(map(Sample.of, test.examples))
    if options.concurrency > len(samples):
        raise InputError(
            f"{options.concurrency} requests in flight need as many samples, and there are "
            f"{len(samples)}: raise --limit, or lower --concurrency"
        )
    reference = _read_reference(options.reference, samples) if options.reference else None
    servers = run_requests(_measure(prompts, options, progress))
    cells = list[LoadCell]()
    for server in servers:
        cells.append(_cell(server, reference))
        reference = reference or (cells[0].endpoint, _texts(cells[0].outputs))
    return LoadResults(
        task=SplitTask(source=test.source.path, split=test.split, samples=len(samples)),
        settings=LoadSettings.model_validate(options, from_attributes=True),
        endpoints=tuple(server.endpoint for server in servers),
        samples=samples,
        cells=tuple(cells),
        comparisons=tuple(_comparison(cell, cells[0], options.concurrency) for cell in cells[1:]),
        **facts,
    )


async def _measure(
    prompts: Sequence[str], options: LoadOptions, progress: Progress
) -> list[_Server]:
    """Measure all servers; each repeat draws a new order of them."""
    done, total = count(1), options.repeats * len(options.addresses) * len(prompts)

    def tick(server: _Server) -> None:
        progress(f"load, {server.client.address.label}", next(done), total)

    async with AsyncExitStack() as stack:
        servers = [_Server(await stack.enter_async_context(client)) for client in _clients(options)]
        for server in servers:
            await _warm_up(server.client, prompts[: options.warmup], options)
        order = np.random.default_rng(options.seed)
        for _ in range(options.repeats):
            for server in order.permutation(np.array(servers, object)):
                begin = time.perf_counter()
                answers = await _answers(server.client, prompts, options, partial(tick, server))
                server.passes.append((time.perf_counter() - begin, answers))
    return servers


def _clients(options: LoadOptions) -> Iterator[Client]:
    models = options.models or ("",)
    models *= len(options.addresses) // len(models)
    for address, model in zip(options.addresses, models, strict=True):
        yield Client(address, model, options.timeout, options.max_new_tokens)


async def _warm_up(client: Client, prompts: Sequence[str], options: LoadOptions) -> None:
    """Send unmeasured requests. Raises UnavailableError if the first one fails."""
    *_, error = await _answer(client, prompts[0], options)
    if error:
        raise client.unavailable(error)
    await _answers(client, prompts[1:], options, lambda: None)


async def _answers(
    client: Client, prompts: Sequence[str], options: LoadOptions, tick: Callable[[], None]
) -> list[Answer]:
    """Send the prompts in order, ``concurrency`` at a time; call ``tick`` after each answer."""
    waiting, answers = iter(enumerate(prompts)), dict[int, Answer]()

    async def user() -> None:
        for i, prompt in waiting:
            answers[i] = await _answer(client, prompt, options)
            tick()

    async with asyncio.TaskGroup() as users:
        for _ in range(options.concurrency):
            users.create_task(user())
    return [answers[i] for i in range(len(prompts))]


async def _answer(client: Client, prompt: str, options: LoadOptions) -> Answer:
    begin = time.perf_counter()
    more: dict[str, Any] = {"stop": list(options.stop)} if options.stop else {}
    more["add_special_tokens"] = False  # as in training; servers pass over what they do not know
    more["skip_special_tokens"] = False  # inside an output they belong to its text
    read = partial(_read, most=options.max_new_tokens)
    try:
        text, tokens = await client.post("/completions", read, prompt=prompt, **more)
    except RequestError as error:
        return "", 0, None, str(error)
    return text, tokens, round(1000 * (time.perf_counter() - begin), 4), ""


def _read(answer: Any, most: int) -> tuple[str, int]:  # noqa: ANN401
    """Return the text of a completion and its number of tokens, of which it may have ``most``."""
    text, usage = answer["choices"][0]["text"], answer.get("usage")
    if not usage:
        raise RequestError("the answer has no usage: set the server to report completion_tokens")
    tokens = usage["completion_tokens"]
    if type(tokens) is not int or not 0 <= tokens <= most:
        raise RequestError(f"completion_tokens is {tokens!r:.60}, and max_tokens was {most:,}")
    return text_of(text), tokens


def _cell(server: _Server, reference: Reference | None) -> LoadCell:
    seconds, passes = zip(*server.passes, strict=True)
    outputs, label = tuple(map(Output.of, zip(*passes, strict=True))), server.client.address.label
    failed = sum(bool(error) for output in outputs for error in output.errors)
    requests = len(seconds) * len(outputs)
    latencies = [output.median_ms for output in outputs if output.median_ms is not None]
    return LoadCell(
        endpoint=label,
        requests=requests,
        failed=failed,
        seconds=seconds,
        requests_per_second=(requests - failed) / sum(seconds),
        ms_per_sample=float(np.mean(latencies)) if latencies else None,
        equal=_equality(reference or (label, _texts(outputs)), _texts(outputs)),
        outputs=outputs,
    )


def _texts(outputs: Sequence[Output]) -> Texts:
    return tuple(None if output.median_ms is None else output.text for output in outputs)


def _equality(reference: Reference, texts: Texts) -> Equality:
    against, expected = reference
    pairs = enumerate(zip(expected, texts, strict=True))
    both = [(i, a == b) for i, (a, b) in pairs if a is not None and b is not None]
    different = [i for i, same in both if not same]
    same, shown = len(both) - len(different), tuple(different[:_SHOWN])
    return Equality(against=against, identical=same, of=len(both), different=shown)


def _comparison(cell: LoadCell, base: LoadCell, concurrency: int) -> LoadComparison:
    """Compare latencies; samples that were in flight together are resampled together."""
    both = np.array([[o.median_ms for o in one.outputs] for one in (cell, base)], float)
    both = both[:, ~np.isnan(both).any(axis=0)]
    speed = None
    if both.size:
        cell_costs, base_costs = (np.stack([ms, np.ones(len(ms))], axis=-1) for ms in both)
        speed = Speeds(both.shape[1], turn_length(concurrency)).of_costs(cell_costs, base_costs)
    return LoadComparison(endpoint=cell.endpoint, against=base.endpoint, speed=speed)


def _read_reference(text: str, samples: Sequence[Sample]) -> Reference:
    """Read the first cell of ``tasc bench`` or ``tasc load``; InputError for other samples."""
    file = results_file(parse_path(text)[1])
    try:
        results = _RESULTS.validate_json(file.read_bytes())
    except ValidationError:
        results = None
    if results is None or not results.cells:
        raise InputError(
            f"{file} is not a result of tasc bench or tasc load of this version: run it again"
        )
    if [sample.id for sample in results.samples] != [sample.id for sample in samples]:
        raise InputError(
            f"{file} has {len(results.samples)} other samples, not these {len(samples)}: run both "
            "with the same --split, --limit and --seed"
        )
    before, after = ([sample.prompt_id for sample in one] for one in (results.samples, samples))
    if before != after:
        raise InputError(
            f"{file} has the same samples, but {different(before, after)} of {len(after)} prompts "
            "differ, as the --template, the chat template or the date that it writes has changed: "
            "repeat that run, and then this one on the same day"
        )
    cell = results.cells[0]
    if isinstance(cell, LoadCell):
        return f"{file.parent.name}: {cell.endpoint}", _texts(cell.outputs)
    return f"{file.parent.name}: {cell.label}", cell.texts
