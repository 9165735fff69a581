"""What operators watch, in the format of Prometheus."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tasc.serving.http.worker import Ended, Job, Worker

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters of one server. Accepted tokens per forward are tokens divided by forwards."""

    def __init__(self, worker: Worker) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Counter(
            "tasc_requests", "Requests by status.", ["status"], registry=registry
        )
        self.prompt = Counter("tasc_prompt_tokens", "Tokens of prompts.", registry=registry)
        self.tokens = Counter("tasc_tokens", "Tokens of outputs that ended.", registry=registry)
        self.forwards = Counter(
            "tasc_forwards", "Forwards of each output, summed.", registry=registry
        )
        self.drafted = Counter(
            "tasc_drafted_tokens", "Tokens that were drafted.", registry=registry
        )
        self.accepted = Counter(
            "tasc_accepted_tokens", "Drafts that were accepted.", registry=registry
        )
        self.first = Histogram(
            "tasc_first_token_seconds",
            "Until the first token.",
            registry=registry,
            buckets=_SECONDS,
        )
        self.whole = Histogram(
            "tasc_output_seconds", "Until an output ended.", registry=registry, buckets=_SECONDS
        )
        Gauge("tasc_running", "Outputs that are decoded.", registry=registry).set_function(
            lambda: worker.running
        )
        Gauge("tasc_waiting", "Outputs that wait.", registry=registry).set_function(
            lambda: worker.waiting
        )

    def add(self, job: Job, ended: Ended) -> None:
        """Count an output that ended."""
        self.prompt.inc(len(job.prompt))
        self.tokens.inc(len(ended.tokens))
        self.forwards.inc(ended.forwards)
        self.drafted.inc(ended.drafted)
        self.accepted.inc(ended.accepted)
        self.whole.observe(time.perf_counter() - job.submitted)
        if job.first is not None:
            self.first.observe(job.first - job.submitted)

    def page(self) -> bytes:
        """Return the text that Prometheus reads."""
        return generate_latest(self.registry)
