"""The training loop that fine-tuning and base training share: AdamW, a schedule, checkpoints."""

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tasc.errors import InputError
from tasc.progress import Progress, silent
from tasc.training import checkpoint, processes
from tasc.training.core.batch import Sequences, collate, plan_epoch
from tasc.training.core.journal import Journal
from tasc.training.core.schedule import Evaluation, Schedule, TrainReport
from tasc.training.objectives.learner import Learner
from tasc.training.tracking import Log, nowhere

_EVALUATED_AT_ONCE = 32  # rows; evaluation keeps no activations
_EVALUATION = 1 << 31  # draws random numbers as a micro-batch of this number


class Run:
    """One training run of a model on the device it is on, alone or among several processes."""

    def __init__(
        self,
        learner: Learner,
        groups: Sequence[Mapping[str, Any]],
        data: Sequences,
        schedule: Schedule,
        *,
        work: Path,
        name: str,
    ) -> None:
        """Prepare a run.

        Args:
            learner: its module's parameters with ``requires_grad`` are trained.
            groups: AdamW parameter groups, each with its own peak learning rate "lr".
            data: rows to learn from.
            schedule: how long and how fast.
            work: folder for checkpoints.
            name: stands for what else makes the run what it is (model, tokenizer). With the
                schedule and the data it decides which checkpoints are this run's.
        """
        model = learner.module
        self.device = next(model.parameters()).device
        self.data, self.schedule, self.work = data, schedule, work
        self.loss, self.score = learner.loss, learner.score
        self.trainable = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.peaks = [float(group["lr"]) for group in groups]
        self.steps = schedule.steps(len(data))
        self.epoch_steps = schedule.epoch_steps(len(data))
        self.identity = self._identity(name)
        self.journal = Journal()
        self.best: dict[str, torch.Tensor] = {}  # of the first process, on the CPU
        self.log: Log = nowhere
        self.plan: tuple[int, list[list[np.ndarray]]] = (-1, [])
        self.group = processes.group()
        self.model = model
        self.optimizer = torch.optim.AdamW([dict(group) for group in groups], fused=True)

    def train(
        self,
        held_out: Sequences | None = None,
        *,
        resume: bool = False,
        progress: Progress = silent,
        log: Log = nowhere,
    ) -> TrainReport:
        """Train to the end and return the report; the model is in evaluation mode afterwards.

        ``held_out`` is evaluated after each epoch and at the end; with the schedule's ``patience``
        the model is left as it was when that loss was lowest. ``resume`` goes on from the newest
        whole checkpoint where there is one; without it old checkpoints are removed. An interrupt
        (KeyboardInterrupt) leaves the last checkpoint in place. ``log`` is given what is measured.
        """
        self.log = log
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            step = self._start(resume)
            origin = time.monotonic() - self.journal.seconds
            self.model.train()
            while not self._over(step):
                loss = self._step(step)
                step += 1
                self.journal.seconds = self._seconds(origin)
                over = self._over(step)
                if held_out is not None and (over or step % self.epoch_steps == 0):
                    self._evaluate(held_out, step)
                    over = self._over(step)
                self.journal.seconds = self._seconds(origin)
                self._checkpoint(step, over=over)
                progress(f"training, loss {loss:.3f}", step, self.steps)
            if self._went_on and self.group.first:  # which alone reports and writes
                self._set_parameters(self.best)
        self.model.eval()
        return self._report(step)

    def _start(self, resume: bool) -> int:
        """Load the newest checkpoint, or clear old ones; return the number of steps done.

        Of several processes all read that of the first, which writes no other before they have. It
        alone was told by a launcher's user to resume: the others began as the same command.
        """
        resume = self.group.total(resume * self.group.first) > 0
        work = Path(self.group.of_first(os.fspath(self.work.absolute())))
        state = checkpoint.newest(work, self.identity) if resume else None
        step = 0 if state is None else state.step
        self._agree(step)
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

    def _agree(self, step: int) -> None:
        """Refuse to train with processes that have another model, other data or another step."""
        mine = f"{self.identity} {step}"
        if self.group.total(self.group.of_first(mine) != mine):
            raise InputError(
                "the processes of this training have not the same data, options, versions or "
                "checkpoints: give them all one folder that each can read"
            )

    def _seconds(self, origin: float) -> float:
        """Return the seconds since ``origin``; the first's, where the time decides what is done."""
        seconds = time.monotonic() - origin
        return self.group.total(seconds * self.group.first) if self.schedule.minutes else seconds

    def _over(self, step: int) -> bool:
        patience = self.schedule.patience
        if patience and self.journal.waited >= patience:
            return True
        return self.schedule.spent(step, self.steps, self.journal.seconds) >= 1

    @property
    def _went_on(self) -> bool:
        """Whether the weights to keep are those of an evaluation before the last."""
        return bool(self.schedule.patience and self.journal.waited)

    def _step(self, step: int) -> float:
        """Do one optimiser step; return its loss in nats per target.

        The sum over the whole effective batch is divided once by its number of targets, so the
        result does not depend on how the batch is cut into micro-batches, nor on how many
        processes share these; random numbers belong to the micro-batch.
        """
        micro = self._rows(step)
        targets = max(1, sum(self.data.targets_of(rows) for rows in micro))
        total = 0.0
        for index in range(self.group.rank, len(micro), self.group.size):
            batch = collate(self.data, micro[index]).to(self.device)
            self._draw(step, index)
            loss = self.loss(self.model, batch, bfloat16=self.schedule.bfloat16) / targets
            torch.autograd.backward(loss)
            total += float(loss.detach())
        total = self.group.total(total)
        self._check(total, step)
        self._add_up_gradients()
        torch.nn.utils.clip_grad_norm_(self.trainable.values(), self.schedule.clip)
        spent = self.schedule.spent(step, self.steps, self.journal.seconds)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * self.schedule.rate(step, spent)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.journal.losses.append(total)
        self.journal.targets += targets
        self.journal.tokens += int(self.data.lengths[np.concatenate(micro)].sum())
        rate = self.optimizer.param_groups[0]["lr"]
        read = self.journal.tokens
        self.log({"loss": total, "learning_rate": rate, "tokens": read}, step + 1)
        return total

    def _draw(self, step: int, index: int) -> None:
        """Let random numbers begin where those of a micro-batch do."""
        state = np.random.SeedSequence([self.schedule.seed, step, index])
        torch.manual_seed(int(state.generate_state(1)[0]))

    def _add_up_gradients(self) -> None:
        if self.group.size == 1:
            return
        for parameter in self.trainable.values():
            if parameter.grad is None:  # none of this process's rows came by it
                parameter.grad = torch.zeros_like(parameter)
        self.group.add_up([p.grad for p in self.trainable.values() if p.grad is not None])

    def _rows(self, step: int) -> list[np.ndarray]:
        """The micro-batches of a step; an epoch's plan is made once."""
        epoch, index = divmod(step, self.epoch_steps)
        if self.plan[0] != epoch:
            s = self.schedule
            plan = plan_epoch(self.data.lengths, s.micro_batch, s.effective_batch, s.seed, epoch)
            self.plan = (epoch, plan)
        return self.plan[1][index]

    def _evaluate(self, held_out: Sequences, step: int) -> None:
        """Evaluate in the first process; all know the result."""
        loss = exact = 0.0
        if self.group.first:
            self._draw(step, _EVALUATION)
            bfloat16 = self.schedule.bfloat16
            found = self.score(self.model, held_out, _EVALUATED_AT_ONCE, step, bfloat16=bfloat16)
            loss, exact = found.loss, found.exact
        result = Evaluation(step, self.group.total(loss), self.group.total(exact))
        self._check(result.loss, step - 1)
        self.journal.evaluations.append(asdict(result))
        self.log({"validation_loss": result.loss, "validation_exact": result.exact}, step)
        if self.schedule.patience and not self.journal.waited and self.group.first:
            self.best = {n: p.detach().to("cpu", copy=True) for n, p in self.trainable.items()}

    def _check(self, loss: float, step: int) -> None:
        """Refuse to go on with a model that is lost."""
        if not math.isfinite(loss):
            raise InputError(
                f"the loss is {loss} at step {step + 1} of {self.steps}: training diverged; use a "
                f"learning rate below {max(self.peaks):g}"
            )

    def _checkpoint(self, step: int, *, over: bool) -> None:
        """Save where it is time to, and at the end: what comes after may be killed too."""
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

    def _identity(self, name: str) -> str:
        shapes = {n: list(p.shape) for n, p in self.trainable.items()}
        parts = [name, asdict(self.schedule), self.data.fingerprint(), shapes, self.peaks]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _report(self, step: int) -> TrainReport:
        journal = self.journal
        kept = journal.evaluations[journal.lowest]["step"] if self._went_on else step
        ended = self.schedule.spent(step, self.steps, journal.seconds) >= 1
        return TrainReport(
            steps=step,
            losses=tuple(journal.losses),
            evaluations=tuple(Evaluation(**entry) for entry in journal.evaluations),  # type: ignore[arg-type]
            tokens=journal.tokens,
            targets=journal.targets,
            seconds=journal.seconds,
            trainable_parameters=sum(p.numel() for p in self.trainable.values()),
            total_parameters=_elements(self.model),
            cut_examples=self.data.cut,
            kept_step=int(kept),
            stopped_early=not ended,
        )


def _elements(model: torch.nn.Module) -> int:
    """Number of weights; a 4-bit parameter holds two in each byte, as its layer tells."""
    found: dict[int, int] = {}
    for module in model.modules():
        state = getattr(module, "quant_state", None)
        for name, parameter in module.named_parameters(recurse=False):
            whole = parameter if state is None or name != "weight" else state
            found[id(parameter)] = math.prod(whole.shape)
    return sum(found.values())
