"""One load test from options to results: every server at every level, in turn.

The load is a closed loop: at concurrency C there are C requests under way, and each answer brings
the next request. A server that is slow is thus asked less, as by C users who wait for it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import numpy as np

from tasc.benchmark.load import record
from tasc.benchmark.load.client import Answer, Server
from tasc.benchmark.load.options import LoadOptions
from tasc.benchmark.load.reference import read_reference
from tasc.benchmark.load.results import Endpoint, LoadResults, LoadSettings
from tasc.benchmark.results.conditions import Sample, SplitTask, run_facts
from tasc.data.corpus import Corpus
from tasc.errors import InputError
from tasc.progress import Progress, silent

# What each server did at each level: by its number and the concurrency, a pass for each repeat.
Passes = dict[tuple[int, int], list[record.Pass]]


def load_test(test: Corpus, options: LoadOptions, progress: Progress = silent) -> LoadResults:
    """Send the prompts of ``test`` to every server and describe what came back.

    Not to be called where an event loop runs already, as in a coroutine.

    Raises:
        UnavailableError: a server does not answer, or the client is not installed.
        InputError: the reference has other samples, or there are fewer samples than requests at a
            time.
    """
    facts = run_facts()
    samples = tuple(map(Sample.of, test.prompts, test.outputs))
    if options.levels[0] > len(samples):
        raise InputError(
            f"{options.levels[0]} requests at a time need as many samples, and there are "
            f"{len(samples)}: raise --limit, or lower --concurrency"
        )
    given = read_reference(options.reference, samples) if options.reference else None
    endpoints, passes = asyncio.run(_measure(test.prompts, options, progress))
    asked = {name: getattr(options, name) for name in LoadSettings.model_fields}
    settings = LoadSettings(**asked | {"concurrency": options.levels})
    cells = record.cells(
        [(endpoints[i].label, concurrency, found) for (i, concurrency), found in passes.items()],
        test.outputs,
        settings,
        given,
    )
    return LoadResults(
        task=SplitTask(source=test.source.path, split=test.split, samples=len(samples)),
        settings=settings,
        endpoints=endpoints,
        samples=samples,
        cells=cells,
        comparisons=record.comparisons(cells, test.outputs, settings),
        **facts,
    )


async def _measure(
    prompts: Sequence[str], options: LoadOptions, progress: Progress
) -> tuple[tuple[Endpoint, ...], Passes]:
    models = options.models or ("",)
    models *= len(options.endpoints) // len(models)
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(Server(address, model, options))
            for address, model in zip(options.addresses, models, strict=True)
        ]
        for server in servers:
            await _warm_up(server, prompts, options)
        passes = await _take_turns(servers, prompts, options, progress)
    return tuple(server.endpoint for server in servers), passes


async def _warm_up(server: Server, prompts: Sequence[str], options: LoadOptions) -> None:
    """Find out whether a server answers at all, and let it compile and capture what it does."""
    first = await server.answer(prompts[0])
    if first.error:
        raise server.silent(first.error)
    await one_pass(server, prompts[1 : options.warmup], options.levels[-1])


async def _take_turns(
    servers: Sequence[Server], prompts: Sequence[str], options: LoadOptions, progress: Progress
) -> Passes:
    """Give each repeat an order of its own, so that no server always runs behind the same one."""
    levels = [c for c in options.levels if c <= len(prompts)]
    passes: Passes = {(i, c): [] for i in range(len(servers)) for c in levels}
    order, done = np.random.default_rng(options.seed), 0
    total = options.repeats * len(passes) * len(prompts)
    for _ in range(options.repeats):
        for concurrency in order.permutation(levels).tolist():
            for i in order.permutation(len(servers)).tolist():
                told = f"load, {servers[i].address.label}, {concurrency} at a time"

                def count(told: str = told) -> None:
                    nonlocal done
                    done += 1
                    progress(told, done, total)

                found = await one_pass(servers[i], prompts, concurrency, count)
                passes[i, concurrency].append(found)
    return passes


async def one_pass(
    server: Server,
    prompts: Sequence[str],
    concurrency: int,
    count: Callable[[], None] = lambda: None,
) -> record.Pass:
    """Send all prompts in their order, so many at a time; ``count`` is called after each."""
    waiting, answers = iter(enumerate(prompts)), [Answer()] * len(prompts)

    async def user() -> None:
        for i, prompt in waiting:
            answers[i] = await server.answer(prompt)
            count()

    begin, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as users:
        for _ in range(concurrency):
            users.create_task(user())
    seconds = time.perf_counter() - begin
    return record.Pass(seconds, time.process_time() - cpu, tuple(answers))
