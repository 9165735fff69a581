"""From answers to figures: one record a server and level, and each server against the first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tasc.benchmark.load.client import Answer
from tasc.benchmark.load.reference import Reference, answered_texts
from tasc.benchmark.load.results import Latency, LoadCell, LoadComparison, LoadSettings, Output
from tasc.benchmark.metrics import score
from tasc.benchmark.paired.pairs import Speeds, counted, qualities
from tasc.benchmark.paired.statistics import Bootstrap, turn_length
from tasc.benchmark.results.comparisons import SpeedRatio


@dataclass(frozen=True)
class Pass:
    """One pass over all samples: its seconds, those of this process' CPU, an answer a sample."""

    seconds: float
    cpu_seconds: float
    answers: tuple[Answer, ...]

    @property
    def answered(self) -> tuple[Answer, ...]:
        """Those that did not fail."""
        return tuple(answer for answer in self.answers if not answer.error)


def cells(
    levels: Iterable[tuple[str, int, Sequence[Pass]]],
    references: Sequence[str],
    settings: LoadSettings,
    against: Reference | None,
) -> tuple[LoadCell, ...]:
    """Describe each (server, concurrency, passes); without a reference the first one is it."""
    found: list[LoadCell] = []
    for endpoint, concurrency, passes in levels:
        outputs = tuple(map(_output, zip(*(one.answers for one in passes), strict=True)))
        against = against or Reference(
            f"{endpoint} · {concurrency} at a time", answered_texts(outputs)
        )
        answered = [answer for one in passes for answer in one.answered]
        seconds = [one.seconds for one in passes]
        tokens = sum(answer.tokens for answer in answered)
        requests = len(passes) * len(outputs)
        found.append(
            LoadCell(
                endpoint=endpoint,
                concurrency=concurrency,
                requests=requests,
                failed=requests - len(answered),
                seconds=tuple(seconds),
                client_cpu=sum(one.cpu_seconds for one in passes) / sum(seconds),
                requests_per_second=len(answered) / sum(seconds),
                output_tokens_per_second=tokens / sum(seconds),
                tokens_per_output=tokens / max(len(answered), 1),
                ttft_ms=_latency([answer.times[0] for answer in answered]),
                tpot_ms=_latency(
                    [(a.ms - a.times[0]) / (a.tokens - 1) for a in answered if a.tokens > 1]
                ),
                itl_ms=_latency([gap for a in answered for gap in np.diff(a.times)]),
                e2el_ms=_latency([answer.ms for answer in answered]),
                quality=score(
                    settings.metrics, [o.text for o in outputs], references, settings.delimiter
                ),
                equal=against.equality(outputs),
                outputs=outputs,
            )
        )
    return tuple(found)


def _output(repeats: Sequence[Answer]) -> Output:
    first = next((answer for answer in repeats if not answer.error), Answer())
    return Output(
        text=first.text,
        tokens=first.tokens,
        ms=tuple(None if a.error else round(a.ms, 4) for a in repeats),
        ttft_ms=tuple(None if a.error else round(a.times[0], 4) for a in repeats),
        errors=tuple(a.error for a in repeats),
    )


def _latency(ms: Sequence[float]) -> Latency | None:
    if not ms:
        return None
    middle, p99 = np.percentile(ms, [50, 99]).tolist()
    return Latency(mean=float(np.mean(ms)), median=middle, p99=p99)


def comparisons(
    cells: Sequence[LoadCell], references: Sequence[str], settings: LoadSettings
) -> tuple[LoadComparison, ...]:
    """Compare each server with the first one, at the same concurrency."""
    first = {cell.concurrency: cell for cell in reversed(cells)}
    bootstrap = Bootstrap(len(references))
    counts = {
        cell.label: counted(cell.texts, references, settings.metrics, settings.delimiter)
        for cell in cells
    }
    return tuple(
        LoadComparison(
            endpoint=cell.endpoint,
            against=base.endpoint,
            concurrency=cell.concurrency,
            speed=_speed(cell, base),
            throughput_by_repeat=tuple(_throughputs(cell, base)),
            quality=qualities(bootstrap, counts[cell.label], counts[base.label]),
        )
        for cell in cells
        for base in [first[cell.concurrency]]
        if cell is not base
    )


def _speed(cell: LoadCell, base: LoadCell) -> SpeedRatio | None:
    """Compare latencies of samples that both answered; those under way together share time."""
    both = np.stack([cell.sample_ms, base.sample_ms])
    both = both[:, ~np.isnan(both).any(axis=0)]
    if not both.size:
        return None
    own, other = (np.stack([ms, np.ones(len(ms))], axis=-1) for ms in both)
    return Speeds(both.shape[1], turn_length(cell.concurrency)).of_costs(own, other)


def _throughputs(cell: LoadCell, base: LoadCell) -> Iterable[float | None]:
    for i, seconds in enumerate(zip(cell.seconds, base.seconds, strict=True)):
        own, other = (
            sum(not output.errors[i] for output in one.outputs) / took
            for one, took in zip((cell, base), seconds, strict=True)
        )
        yield own / other if other else None
