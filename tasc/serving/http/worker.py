"""The thread that decodes: requests come in through a queue, tokens go out through callbacks."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TypeVar

import numpy as np
import torch

from tasc.decoding.beginnings import Beginnings
from tasc.decoding.core.grammar import FORCED, Grammar
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.core.stopping import StopStrings
from tasc.decoding.decode import Engine, Request, Running
from tasc.decoding.drafters import Factory, Method
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.library import chosen, policy_of
from tasc.decoding.loaded import Loaded
from tasc.errors import InputError
from tasc.models.packed import native_threads
from tasc.serving.http.logprobs import Logprobs, joined
from tasc.serving.http.penalties import Penalties
from tasc.tokenizer.token_bytes import token_speller

SHARED = 2  # the beginnings of prompts that are kept have this many times the longest output
_PLANNED = 1024  # positions of each sequence in the first cache
_log = logging.getLogger("tasc")
T = TypeVar("T")


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
    logprobs: Logprobs | None = None  # of the tokens, if the job asks for them


@dataclass(frozen=True, eq=False)
class Written:
    """What a step wrote: tokens (k,) int32, and their log-probabilities if the job asks."""

    tokens: np.ndarray
    logprobs: Logprobs | None = None


@dataclass(eq=False)
class Job:
    """One output to decode, and the callbacks that the worker's thread calls.

    ``on_tokens`` receives what each step wrote, ``on_end`` comes once, last; neither comes after
    ``Worker.cancel`` has been carried out. ``drafting`` is None for an output without drafts.
    """

    prompt: np.ndarray  # (L,) int32
    most_tokens: int
    on_end: Callable[[Ended], None]
    on_tokens: Callable[[Written], None] | None = None
    drafting: "Drafting | None" = None
    sampling: Sampling | None = None
    number: int = 0  # among the outputs of one request, which differ when sampled
    stops: tuple[str, ...] = ()
    grammar: Grammar | None = None
    penalties: Penalties = field(default_factory=Penalties)
    top_tokens: int | None = None  # likely tokens of each position; None: no log-probabilities
    submitted: float = field(default_factory=time.perf_counter)
    first: float | None = None  # when its first tokens came
    logprobs: list[Logprobs] = field(default_factory=list)  # of each step


@dataclass(frozen=True, eq=False)
class Drafting:
    """What the requests of a task draft with: a method, and what it prepared."""

    method: Method
    make: Factory


class Worker:
    """Decodes jobs in a thread of its own, at most ``size`` at a time, and lets others wait."""

    def __init__(
        self, loaded: Loaded, method: Method, *, size: int, queue: int, capacity: int
    ) -> None:
        """Admit ``size`` jobs of ``capacity`` tokens, prompts included, and ``queue`` more."""
        self.loaded, self.method, self.size, self.most = loaded, method, size, size + queue
        self.spell = token_speller(loaded.tokenizer.tokenizer)
        target = loaded.target
        policy, beginnings = policy_of(method, target), Beginnings(target, SHARED * capacity)
        self.engine = Engine(target, loaded.end_ids, method.budget, policy, beginnings)
        self.longest = capacity + max(method.budget, FORCED) + 1  # with drafts
        self.commands = SimpleQueue[Callable[[], None]]()
        self.jobs: dict[Running, Job] = {}
        self.admitted, self.lock, self.stopping = 0, threading.Lock(), False
        self.thread = threading.Thread(target=self._run, name="tasc-engine", daemon=True)

    def start(self) -> None:
        """Start decoding. The cache is made for short outputs, and grows with the first longer."""
        _ = self.loaded.target.head  # the first use drops sequences
        self.capacity = min(self.longest, _PLANNED)
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

    def call(self, work: Callable[[], T]) -> "Future[T]":
        """Let the worker's thread do ``work`` before the next step."""
        future = Future[T]()

        def obey() -> None:
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)

        self.commands.put(obey)
        return future

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
            if not isinstance(error, InputError):
                _log.exception("a request could not start")
            self._end(job, _failed(error))
            return
        self.jobs[running] = job

    def _request(self, job: Job) -> Request:
        stop = StopStrings(job.stops, self.spell) if job.stops else None

        def on_tokens(tokens: np.ndarray) -> None:
            job.first = job.first or time.perf_counter()
            if job.on_tokens is not None:
                job.on_tokens(Written(tokens, job.logprobs[-1] if job.logprobs else None))

        def on_logits(tokens: np.ndarray, logits: torch.Tensor) -> None:
            job.logprobs.append(Logprobs.of(tokens, logits, job.top_tokens or 0))

        own = job.penalties.processors(len(job.prompt))
        return Request(
            job.prompt,
            self._factory(job),
            chosen("sampled", job.sampling, job.number),
            stop,
            on_tokens,
            self.loaded.processors(job.prompt, job.most_tokens, own),
            job.grammar,
            None if job.top_tokens is None else on_logits,
        )

    def _factory(self, job: Job) -> Factory:
        drafting = job.drafting
        if drafting is None:
            return Autoregressive
        return drafting.method.constrained(drafting.make, job.grammar)

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
            try:
                ended = self._ended(running, job)
            except Exception as error:  # such as of a tokenizer's decoder
                _log.exception("an output could not be turned into text")
                ended = _failed(error)
            self._end(job, ended)

    def _ended(self, running: Running, job: Job) -> Ended:
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
            joined(job.logprobs) if job.logprobs else None,
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
