"""The training loop of fine-tuning and base training: AdamW, a schedule, checkpoints."""

import hashlib
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tasc.errors import InputError
from tasc.progress import Progress, silent
from tasc.training import checkpoint, processes
from tasc.training.core.batch import Batch, Examples, collate, cut_for_cpu, plan_epoch
from tasc.training.core.schedule import Evaluation, Journal, Schedule, TrainReport
from tasc.training.objectives.learner import Learner

_EVALUATION_BATCH = 32  # evaluation keeps no activations
_EVALUATION = 1 << 31  # seeds evaluation as if it were this micro-batch


class Run:
    """One training run of a model on its device, in one or several processes."""

    def __init__(
        self,
        learner: Learner,
        groups: Sequence[Mapping[str, Any]],
        examples: Examples,
        schedule: Schedule,
        *,
        work: Path,
        name: str,
    ) -> None:
        """Prepare to train the parameters with ``requires_grad``, with checkpoints in ``work``.

        ``groups`` are AdamW parameter groups, each with its own peak learning rate "lr".
        Checkpoints of a run with another ``name``, schedule or other examples are rejected.
        """
        model = learner.module
        self.device = next(model.parameters()).device
        self.examples, self.schedule, self.work = examples, schedule, work
        self.loss, self.evaluate = learner.loss, learner.evaluate
        self.trainable = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.peaks = [float(group["lr"]) for group in groups]
        self.steps = schedule.steps(len(examples))
        self.epoch_steps = schedule.epoch_steps(len(examples))
        shapes = {n: list(p.shape) for n, p in self.trainable.items()}
        parts = [name, asdict(schedule), examples.fingerprint(), shapes, self.peaks]
        self.identity = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        self.journal = Journal()
        self.best: dict[str, torch.Tensor] = {}  # in the first process, on the CPU
        self.plan: tuple[int, list[list[np.ndarray]]] = (-1, [])  # epoch, its steps
        self.group = processes.group()
        self.model = model
        self.optimizer = torch.optim.AdamW([dict(group) for group in groups], fused=True)

    def train(
        self, held_out: Examples | None = None, *, resume: bool = False, progress: Progress = silent
    ) -> TrainReport:
        """Train to the end and return the report; leave the model in evaluation mode.

        ``held_out`` is evaluated after each epoch and at the end. With ``patience`` in the schedule
        the model ends with the weights of the best evaluation. ``resume`` continues from the
        newest checkpoint, if any; otherwise old checkpoints are removed.
        """
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            step = self._start(resume)
            progress("training", step, self.steps)
            origin = time.monotonic() - self.journal.seconds
            self.model.train()
            while not self._over(step):
                loss = self._step(step)
                step += 1
                self.journal.seconds = time.monotonic() - origin
                over = self._over(step)
                if held_out is not None and (over or step % self.epoch_steps == 0):
                    self._evaluate(held_out, step, progress)
                    over = self._over(step)
                self.journal.seconds = time.monotonic() - origin
                self._checkpoint(step, over=over)
                progress(f"training, loss {loss:.3f}", step, self.steps)
            if self._best_is_older and self.group.first:  # the others report and write nothing
                self._set_parameters(self.best)
        self.model.eval()
        return self._report(step)

    def _start(self, resume: bool) -> int:
        """Load the newest checkpoint, or remove old ones; return the number of steps done."""
        # Only the command line of the first process has --resume.
        resume = self.group.total(resume * self.group.first) > 0
        work = Path(self.group.of_first(os.fspath(self.work.absolute())))
        state = checkpoint.newest(work, self.identity) if resume else None
        step = 0 if state is None else state.step
        self._check_same(step)
        if state is None:
            if self.group.first:
                checkpoint.clear(self.work)
            return 0
        self._set_parameters(state.parameters)
        checkpoint.restore_optimizer(self.optimizer, state.optimizer)
        self.journal = Journal(**state.journal)
        self.best = dict(state.best) if self.group.first else {}
        return state.step

    @torch.no_grad()
    def _set_parameters(self, tensors: Mapping[str, torch.Tensor]) -> None:
        for name, parameter in self.trainable.items():
            parameter.copy_(tensors[name])

    def _check_same(self, step: int) -> None:
        mine = f"{self.identity} {step}"
        if self.group.total(self.group.of_first(mine) != mine):
            raise InputError(
                "the processes of this training differ in data, options, versions or checkpoints: "
                "use one folder that all of them can read"
            )

    def _over(self, step: int) -> bool:
        patience = self.schedule.patience
        if patience and self.journal.waited >= patience:
            return True
        return self.schedule.spent(step, self.steps, self.journal.seconds) >= 1

    @property
    def _best_is_older(self) -> bool:
        """Whether the weights to keep are from an evaluation before the last one."""
        return bool(self.schedule.patience and self.journal.waited)

    def _step(self, step: int) -> float:
        """Do one optimizer step; return its loss in nats per target.

        The summed loss of the effective batch is divided once by its number of targets, and random
        numbers depend on the micro-batch. So the result does not depend on the number of
        micro-batches or processes.
        """
        micro = self._micro_batches(step)
        targets = max(1, sum(self.examples.targets_of(indices) for indices in micro))
        total = 0.0
        for i in range(self.group.rank, len(micro), self.group.size):
            self._seed(step, i)
            for batch in self._batches(micro[i]):
                autocast = torch.autocast(
                    self.device.type, torch.bfloat16, enabled=self.schedule.bfloat16
                )
                with autocast:
                    loss = self.loss(self.model, batch) / targets
                torch.autograd.backward(loss)
                total += float(loss.detach())
        total = self.group.total(total)
        self._check_finite(total, step)
        self._update(step)
        self.journal.losses.append(total)
        self.journal.targets += targets
        self.journal.tokens += int(self.examples.lengths[np.concatenate(micro)].sum())
        return total

    def _batches(self, indices: np.ndarray) -> Iterator[Batch]:
        """Yield a micro-batch, on a CPU in parts with little padding."""
        if self.device.type != "cpu":
            yield collate(self.examples, indices).to(self.device)
            return
        # oneDNN compiles a product in bfloat16 for each new shape; those in float32 need none.
        multiple = {} if self.schedule.bfloat16 else {"multiple": 1}
        for part in cut_for_cpu(self.examples.lengths, indices):
            yield collate(self.examples, part, **multiple)

    def _update(self, step: int) -> None:
        self._add_up_gradients()
        torch.nn.utils.clip_grad_norm_(self.trainable.values(), self.schedule.clip)
        spent = self.schedule.spent(step, self.steps, self.journal.seconds)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * self.schedule.rate(step, spent)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _seed(self, step: int, micro_batch: int) -> None:
        state = np.random.SeedSequence([self.schedule.seed, step, micro_batch])
        torch.manual_seed(int(state.generate_state(1)[0]))

    def _add_up_gradients(self) -> None:
        if self.group.size == 1:
            return
        for parameter in self.trainable.values():
            if parameter.grad is None:  # not used by this process's examples
                parameter.grad = torch.zeros_like(parameter)
        self.group.add_up([p.grad for p in self.trainable.values() if p.grad is not None])

    def _micro_batches(self, step: int) -> list[np.ndarray]:
        epoch, index = divmod(step, self.epoch_steps)
        if self.plan[0] != epoch:
            s, lengths = self.schedule, self.examples.lengths
            plan = plan_epoch(lengths, s.micro_batch, s.effective_batch, s.seed, epoch)
            self.plan = (epoch, plan)
        return self.plan[1][index]

    def _evaluate(self, held_out: Examples, step: int, progress: Progress) -> None:
        """Evaluate in the first process; send the result to all of them."""
        loss = exact = 0.0
        if self.group.first:
            self._seed(step, _EVALUATION)
            options: dict[str, Any] = {"bfloat16": self.schedule.bfloat16, "progress": progress}
            loss, exact = self.evaluate(held_out, _EVALUATION_BATCH, **options)
        loss, exact = self.group.total(loss), self.group.total(exact)
        self._check_finite(loss, step - 1)
        self.journal.evaluations.append(asdict(Evaluation(step, loss, exact)))
        if self.schedule.patience and not self.journal.waited and self.group.first:
            self.best = {n: p.detach().to("cpu", copy=True) for n, p in self.trainable.items()}

    def _check_finite(self, loss: float, step: int) -> None:
        if not math.isfinite(loss):
            raise InputError(
                f"training diverged: the loss is {loss} at step {step + 1} of {self.steps}: use a "
                f"learning rate below {max(self.peaks):g}"
            )

    def _checkpoint(self, step: int, *, over: bool) -> None:
        """Save a checkpoint if it is due, and at the end, as the output is not written yet."""
        every = self.schedule.checkpoint_steps
        if not self.group.first or not every or (step % every and not over):
            return
        state = checkpoint.Checkpoint(
            step=step,
            parameters=self.trainable,
            optimizer=checkpoint.optimizer_tensors(self.optimizer),
            journal=asdict(self.journal),
            best=self.best,
        )
        checkpoint.save(self.work, self.identity, state)

    def _report(self, step: int) -> TrainReport:
        journal = self.journal
        kept_step = journal.evaluations[journal.best]["step"] if self._best_is_older else step
        complete = self.schedule.spent(step, self.steps, journal.seconds) >= 1
        return TrainReport(
            steps=step,
            losses=tuple(journal.losses),
            evaluations=tuple(Evaluation(**entry) for entry in journal.evaluations),  # type: ignore[arg-type]
            tokens=journal.tokens,
            targets=journal.targets,
            seconds=journal.seconds,
            trainable_parameters=sum(p.numel() for p in self.trainable.values()),
            total_parameters=_count_parameters(self.model),
            cut_examples=self.examples.cut,
            kept_step=int(kept_step),
            stopped_early=not complete,
        )


def _count_parameters(model: torch.nn.Module) -> int:
    """Return the number of weights; the shape of packed 4-bit weights is in ``quant_state``."""
    counts: dict[int, int] = {}
    for module in model.modules():
        state = getattr(module, "quant_state", None)
        for name, parameter in module.named_parameters(recurse=False):
            unpacked = parameter if state is None or name != "weight" else state
            counts[id(parameter)] = math.prod(unpacked.shape)
    return sum(counts.values())
