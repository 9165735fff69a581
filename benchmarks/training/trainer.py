"""Our training loop beside transformers' Trainer: seconds a step, loss, and what a kill costs.

The same model, rows, AdamW and schedule, in float32 and one process. Arms take turns in each round,
which has a seed of its own. Seconds are the processor's, which others on the machine do not stretch
as they do the clock's; their mean is over an epoch or more, as each arm orders rows by length in
its own way.
"trainer" is Trainer as it comes, with rows of like length together; "trainer, our loss" has our
loss, which computes logits of targets only: what is left between it and ours is the loop itself.

    python -m benchmarks.training.trainer DATA [--sizes tiny=66,small=66,medium=66] [--json FILE]
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainerState, TrainingArguments

from benchmarks.figures import publish, script
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.models.folder.quiet import quiet
from tasc.training.base import PRESETS, build
from tasc.training.base_tokenizer import train_tokenizer
from tasc.training.core.batch import IGNORED, Batch, Examples, collate, encode_examples
from tasc.training.core.schedule import Schedule
from tasc.training.loop import Run
from tasc.training.objectives.language import evaluate, learner, summed_loss

BATCH, LENGTH, EXAMPLES, HELD_OUT = 32, 160, 2000, 200
FIRST = 3  # steps that are not timed
Stop = Callable[[int], None]


def main() -> None:
    """Measure all sizes, then what a run that was cut goes on to."""
    parser = script(__doc__, threads=True)
    parser.add_argument("data", help="MASSIVE's folder, or any task's")
    parser.add_argument("--sizes", default="tiny=66,small=66,medium=66", help="presets, and steps")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sizes = {name: int(steps) for name, steps in (s.split("=") for s in options.sizes.split(","))}
    tasks = {name: Task(name, options.data, steps) for name, steps in sizes.items()}
    found = [{"size": name, **compare(task, options.rounds)} for name, task in tasks.items()]
    publish({"sizes": found, "cut": [cut(arm, options.data) for arm in CUT]}, options.json)


class Task:
    """A model with random weights, always the same, and rows of a data set."""

    def __init__(self, preset: str, data: str, steps: int) -> None:
        """Read ``data``'s training split for a model of a ``preset``."""
        self.preset, self.steps = PRESETS[preset], steps
        corpus = load(Source(data), "train")
        tokenizer = train_tokenizer(list(corpus.prompts[:EXAMPLES]), self.preset.vocabulary)
        self.vocabulary = len(tokenizer.vocabulary())
        rows = partial(encode_examples, tokenizer, max_length=LENGTH)
        read, held = slice(EXAMPLES), slice(EXAMPLES, EXAMPLES + HELD_OUT)
        self.rows: Examples = rows(prompts=corpus.prompts[read], outputs=corpus.outputs[read])
        self.held_out: Examples = rows(prompts=corpus.prompts[held], outputs=corpus.outputs[held])

    def model(self, seed: int) -> PreTrainedModel:
        """Return the model as it begins."""
        return build(self.preset, self.vocabulary, 512, seed=seed)


def ours(
    task: Task, model: PreTrainedModel, work: Path, stop: Stop, *, seed: int, resume: bool
) -> None:
    """Train with our loop."""
    epochs = task.steps / -(-len(task.rows) // BATCH)
    every = 5 if resume or stop is not _go_on else 0
    schedule = Schedule(epochs, BATCH, BATCH, bfloat16=False, checkpoint_steps=every, seed=seed)
    rate = task.preset.learning_rate
    groups = [{"params": list(model.parameters()), "lr": rate, "weight_decay": 0.0}]
    run = Run(learner(model), groups, task.rows, schedule, work=work, name="a")
    run.train(resume=resume, progress=lambda _what, done, _total: stop(done))


def theirs(
    task: Task,
    model: PreTrainedModel,
    work: Path,
    stop: Stop,
    *,
    seed: int,
    resume: bool,
    our_loss: bool,
) -> None:
    """Train with transformers' Trainer."""
    every: dict[str, Any] = {"save_strategy": "no"}
    if resume or stop is not _go_on:
        every = {"save_strategy": "steps", "save_steps": 5, "save_total_limit": 2}
    given = TrainingArguments(
        str(work),
        per_device_train_batch_size=BATCH,
        max_steps=task.steps,
        learning_rate=task.preset.learning_rate,
        lr_scheduler_type="linear",
        weight_decay=0.0,
        optim="adamw_torch_fused",
        train_sampling_strategy="group_by_length",
        logging_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        seed=seed,
        **every,
    )
    texts = np.split(task.rows.tokens, task.rows.offsets[1:-1])
    dataset = [{"row": row, "input_ids": tokens} for row, tokens in enumerate(texts)]

    def padded(rows: list[dict[str, Any]]) -> dict[str, Any]:
        batch = collate(task.rows, np.array([row["row"] for row in rows]))
        return {"input_ids": batch.input_ids, "labels": batch.labels} | (
            {"keep": batch.keep} if our_loss else {}
        )

    kind = _OurLoss if our_loss else Trainer
    trainer = kind(model, given, padded, dataset, callbacks=[_Steps(stop)])
    trainer.train(resume_from_checkpoint=resume or None)


class _OurLoss(Trainer):
    """Trainer with the loss of our loop."""

    def compute_loss(
        self, model: torch.nn.Module, inputs: dict[str, Any], **_more: object
    ) -> torch.Tensor:
        """Return nats a target."""
        batch = Batch(inputs["input_ids"], inputs["labels"], None, inputs["keep"])
        return summed_loss(model, batch, bfloat16=False) / int((batch.labels != IGNORED).sum())


class _Steps(TrainerCallback):
    """Tells the steps that are done; behind a step's checkpoint, as our loop does."""

    def __init__(self, told: Stop) -> None:
        self.told = told

    def on_step_begin(
        self, _arguments: TrainingArguments, state: TrainerState, *_more: object, **_given: object
    ) -> None:
        """Tell of the step before."""
        if state.global_step:
            self.told(state.global_step)

    def on_train_end(
        self, _arguments: TrainingArguments, state: TrainerState, *_more: object, **_given: object
    ) -> None:
        """Tell of the last step."""
        self.told(state.global_step)


ARMS: dict[str, Callable[..., None]] = {
    "ours": ours,
    "trainer": partial(theirs, our_loss=False),
    "trainer, our loss": partial(theirs, our_loss=True),
}


CUT = ("ours", "trainer")


def _go_on(_done: int) -> None:
    """Never stop."""


def compare(task: Task, rounds: int) -> dict[str, Any]:
    """Return seconds a step of each arm, ratios to ours, and losses after the same steps."""
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    losses: dict[str, list[float]] = {arm: [] for arm in ARMS}
    names = list(ARMS)
    for turn in range(rounds):
        for arm in names[turn % 3 :] + names[: turn % 3]:
            model, times = task.model(turn), list[float]()
            with tempfile.TemporaryDirectory() as work, quiet():
                ARMS[arm](task, model, Path(work), _clock(times), seed=turn, resume=False)
            seconds[arm].append(float(np.mean(np.diff(times)[FIRST:])))
            losses[arm] += [evaluate(model, task.held_out, 32, 0, bfloat16=False).loss]
    ratios = {
        arm: [a / b for a, b in zip(seconds[arm], seconds["ours"], strict=True)] for arm in ARMS
    }
    return {
        "parameters": sum(p.numel() for p in task.model(0).parameters()),
        "steps": task.steps,
        "arms": {
            arm: {
                "seconds_per_step": seconds[arm],
                "ratio": statistics.median(ratios[arm]),
                "ratios": [min(ratios[arm]), max(ratios[arm])],
                "losses": losses[arm],
            }
            for arm in ARMS
        },
    }


def _clock(times: list[float]) -> Stop:
    return lambda _done: times.append(time.process_time())


def cut(arm: str, data: str) -> dict[str, Any]:
    """Stop a run behind its second checkpoint, and see what it goes on to, whole and torn."""
    task = Task("pico", data, 12)
    whole = task.model(0)
    with tempfile.TemporaryDirectory() as work, quiet():
        ARMS[arm](task, whole, Path(work), lambda _done: None, seed=0, resume=False)
    return {
        "arm": arm,
        **_goes_on(arm, task, whole, torn=False),
        "torn": _goes_on(arm, task, whole, torn=True)["ends"],
    }


def _goes_on(arm: str, task: Task, whole: PreTrainedModel, *, torn: bool) -> dict[str, Any]:
    """Return how a run that was stopped at step 11 ends, and what its checkpoint is made of."""

    def stop(done: int) -> None:
        if done == 11:
            raise KeyboardInterrupt

    model = task.model(0)
    with tempfile.TemporaryDirectory() as folder, quiet():
        work = Path(folder)
        with suppress(KeyboardInterrupt):
            ARMS[arm](task, model, work, stop, seed=0, resume=False)
        newest = max(work.iterdir(), key=lambda path: int(path.name.rpartition("-")[2]))
        files = [path for path in newest.iterdir() if path.is_file()]
        if torn:  # as a kill or a full disk leaves a file that was being written
            largest = max(files, key=lambda path: path.stat().st_size)
            with largest.open("r+b") as file:
                file.truncate(largest.stat().st_size // 2)
        found = {
            "checkpoint_bytes": sum(path.stat().st_size for path in files),
            "pickles": sorted(p.name for p in files if p.suffix in (".pt", ".pth", ".bin")),
        }
        again = task.model(0)
        try:
            ARMS[arm](task, again, work, lambda _done: None, seed=0, resume=True)
        except Exception as error:  # whatever a library raises on a torn file is the finding
            return {"ends": type(error).__name__, **found}
    same = all(
        torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True)
    )
    return {"ends": "the same weights" if same else "other weights", **found}


if __name__ == "__main__":
    main()
