"""The thread that decodes: requests come in through a queue, tokens go out through callbacks."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import numpy as np
import torch

from tasc.decoding.core.grammar import FORCED, Grammar
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.core.stopping import StopStrings
from tasc.decoding.decode import Engine, Request, Running
from tasc.decoding.drafters import Factory, Method
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.library import chosen, policy_of
from tasc.decoding.loaded import Loaded
from tasc.models.packed import native_threads
from tasc.tokenizer.token_bytes import token_speller

_PLANNED = 1024  # positions of each sequence in the first cache
_log = logging.getLogger("tasc")


class BusyError(Exception):
    """The queue has no place left."""


@dataclass(frozen=True)
class Ended:
    """How an output ended; ``finish`` is as in ``Running.finished``."""

    finish: str
    tokens: np.ndarray  # (T,) int32
    text: str  # before the end token or the stop string
    forwards: int = 0
    drafted: int = 0
    accepted: int = 0
    error: Exception | None = None  # an InputError if the request is wrong


@dataclass(eq=False)
class Job:
    """One output to decode, and the callbacks that the worker's thread calls.

    ``on_tokens`` receives the tokens (k,) int32 of each step, ``on_end`` comes once, last; neither
    comes after ``Worker.cancel`` has been carried out.
    """

    prompt: np.ndarray  # (L,) int32
    most_tokens: int
    on_end: Callable[[Ended], None]
    on_tokens: Callable[[np.ndarray], None] | None = None
    sampling: Sampling | None = None
    number: int = 0  # among the outputs of one request, which differ when sampled
    stops: tuple[str, ...] = ()
    grammar: Grammar | None = None
    drafts: bool = True
    submitted: float = field(default_factory=time.perf_counter)
    first: float | None = None  # when its first tokens came


@dataclass(frozen=True)
class Drafting:
    """What all requests draft with: a method, and what it prepared."""

    method: Method
    make: Factory


class Worker:
    """Decodes jobs in a thread of its own, at most ``size`` at a time, and lets others wait."""

    def __init__(self, loaded: Loaded, drafting: Drafting, *, size: int, queue: int) -> None:
        """Admit ``size`` jobs and ``queue`` waiting ones."""
        self.loaded, self.drafting, self.size, self.most = loaded, drafting, size, size + queue
        self.spell = token_speller(loaded.tokenizer.tokenizer)
        policy = policy_of(drafting.method, loaded.target)
        self.engine = Engine(loaded.target, loaded.end_ids, drafting.method.budget, policy)
        self.commands = SimpleQueue[Callable[[], None]]()
        self.jobs: dict[Running, Job] = {}
        self.admitted, self.lock, self.stopping = 0, threading.Lock(), False
        self.thread = threading.Thread(target=self._run, name="tasc-engine", daemon=True)

    def start(self, capacity: int) -> None:
        """Start decoding sequences of at most ``capacity`` tokens each, prompts included.

        The cache is made for shorter ones, and grows with the first longer one.
        """
        _ = self.loaded.target.head  # the first use drops sequences
        most = capacity + max(self.drafting.method.budget, FORCED) + 1
        self.capacity = min(most, _PLANNED)
        self.engine.begin(self.capacity, self.size)
        self.threads = torch.get_num_threads()  # a new thread has a number of its own
        self.thread.start()

    def stop(self) -> None:
        """End the thread after the present step; jobs get no answer."""
        self.stopping = True
        self.commands.put(lambda: None)
        self.thread.join()

    @property
    def running(self) -> int:
        return len(self.engine.live)

    @property
    def waiting(self) -> int:
        return max(self.admitted - self.running, 0)

    def submit(self, jobs: list[Job]) -> None:
        """Let all of ``jobs`` decode. Raises BusyError, and admits none, if they have no place."""
        with self.lock:
            if self.admitted + len(jobs) > self.most:
                raise BusyError
            self.admitted += len(jobs)
        for job in jobs:
            self.commands.put(lambda job=job: self._admit(job))  # type: ignore[misc]

    def cancel(self, jobs: list[Job]) -> None:
        """Free the places of ``jobs`` before the next step; those that ended are left alone."""
        self.commands.put(lambda: self._cancel(jobs))

    def _run(self) -> None:
        torch.set_num_threads(self.threads)
        with native_threads(self.loaded.target.model):
            while not self.stopping:
                self._obey()
                if self.engine.busy:
                    self._step()

    def _obey(self) -> None:
        """Carry out all commands; wait for one if there is nothing to decode."""
        wait = not self.engine.busy
        while True:
            try:
                self.commands.get(block=wait)()
            except Empty:
                return
            wait = False

    def _admit(self, job: Job) -> None:
        try:
            running = self.engine.submit(self._request(job), job.most_tokens)
        except Exception as error:  # of transformers, too, for settings of a request
            self._end(job, _failed(error))
            return
        self.jobs[running] = job

    def _request(self, job: Job) -> Request:
        stop = StopStrings(job.stops, self.spell) if job.stops else None

        def on_tokens(tokens: np.ndarray) -> None:
            job.first = job.first or time.perf_counter()
            if job.on_tokens is not None:
                job.on_tokens(tokens)

        return Request(
            job.prompt,
            self._factory(job),
            chosen("sampled", job.sampling, job.number),
            stop,
            on_tokens,
            self.loaded.processors(job.prompt, job.most_tokens),
            job.grammar,
        )

    def _factory(self, job: Job) -> Factory:
        if not job.drafts:
            return Autoregressive
        return self.drafting.method.constrained(self.drafting.make, job.grammar)

    def _step(self) -> None:
        try:
            done = self.engine.step()
        except Exception as error:  # a failure of this program: other requests go on
            _log.exception("a step failed; the requests that were decoded get an error")
            for running in self.engine.abandon(self.capacity):
                self._end(self.jobs.pop(running), _failed(error))
            return
        for running in done:
            job = self.jobs.pop(running)
            self._end(job, self._ended(running))

    def _ended(self, running: Running) -> Ended:
        tokens, stop = running.result.tokens, running.request.stop
        text = self.loaded.text(tokens)
        if isinstance(stop, StopStrings):
            text = stop.text(tokens.tolist(), self.loaded.text)
        return Ended(
            running.finished,
            tokens,
            text,
            running.result.decoding_steps,
            running.drafted,
            running.accepted,
            running.error,
        )

    def _end(self, job: Job, ended: Ended) -> None:
        with self.lock:
            self.admitted -= 1
        job.on_end(ended)

    def _cancel(self, jobs: list[Job]) -> None:
        for running, job in list(self.jobs.items()):
            if job in jobs:
                self.engine.cancel(running)
                del self.jobs[running]
                with self.lock:
                    self.admitted -= 1


def _failed(error: Exception) -> Ended:
    return Ended("error", np.empty(0, np.int32), "", error=error)
