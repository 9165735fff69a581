"""The interface between an objective and the training loop, and evaluation on held-out examples."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tasc.progress import Progress, silent
from tasc.training.core.batch import Batch, Examples, collate

_LOGITS = 1 << 27  # of an evaluation batch: half a gigabyte in float32

# The training loss in nats, summed over the batch's targets: a scalar with a gradient.
Loss = Callable[[nn.Module, Batch], Tensor]
# The summed loss, the number of targets, and how many of how many are exact.
Score = Callable[[nn.Module, Batch], tuple[float, int, int, int]]


def innermost(model: torch.nn.Module) -> torch.nn.Module:
    """Return the transformers model inside PEFT's wrapper, if there is one."""
    get_base = getattr(model, "get_base_model", None)
    return get_base() if callable(get_base) else model


@dataclass(frozen=True)
class Learner:
    """A module to train, its loss, and its evaluation, which both run under autocast."""

    module: nn.Module
    loss: Loss
    score: Score
    width: int = 0  # logits per position that ``score`` has in memory at once; 0 if only a few

    @torch.no_grad()
    def evaluate(
        self, examples: Examples, batch_size: int, *, bfloat16: bool, progress: Progress = silent
    ) -> tuple[float, float]:
        """Return loss and exact match, as in ``Evaluation``; the module keeps its mode."""
        was_training = self.module.training
        self.module.eval()
        device = next(self.module.parameters()).device
        if self.width:
            affordable = _LOGITS // (int(examples.lengths.max()) * self.width)
            batch_size = min(batch_size, max(1, affordable))
        order = np.argsort(examples.lengths, kind="stable")  # batches of similar length
        sums = np.zeros(4)
        for start in range(0, len(order), batch_size):
            progress("validating", start, len(order))
            batch = collate(examples, order[start : start + batch_size]).to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                sums += self.score(self.module, batch)
        self.module.train(was_training)
        loss, targets, exact, judged = sums.tolist()
        return loss / max(1, targets), exact / max(1, judged)
