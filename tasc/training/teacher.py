"""How likely a model without new tokens finds sequences that hold them."""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from tasc.errors import InputError
from tasc.models.embeddings import NewEmbedding
from tasc.progress import Progress, silent
from tasc.training.core.batch import Sequences, collate
from tasc.training.core.split import Splitter
from tasc.training.objectives.language import affordable_rows, target_logits

_AT_ONCE = 32  # rows of a forward


@torch.no_grad()
def teacher_log_probabilities(
    model: PreTrainedModel,
    data: Sequences,
    added: Sequence[NewEmbedding],
    progress: Progress = silent,
) -> np.ndarray:
    """Return the log-probability of every target, (T,) float32 in nats; 0 for other tokens.

    That of a new token is the sum over the base tokens it is made of, each behind all that stand
    before it.

    Raises:
        InputError: the teacher reads fewer positions than a sequence of base tokens has, or does
            not know all of its tokens.
    """
    written, owners = Splitter(added).split(data, np.ones(len(data.tokens), bool))
    _check(model, written)
    found = np.zeros(len(data.tokens), np.float64)
    order = np.argsort(written.lengths, kind="stable")
    at_once = min(_AT_ONCE, affordable_rows(model, int(written.lengths.max())))
    for start in range(0, len(order), at_once):
        rows = order[start : start + at_once]
        logits, labels = target_logits(
            model, collate(written, rows).to(model.device), bfloat16=False
        )
        likely = torch.log_softmax(logits, -1).gather(1, labels[:, None])[:, 0]
        spans = [np.arange(written.offsets[row], written.offsets[row + 1]) for row in rows]
        positions = np.concatenate([span[written.targets[span]] for span in spans])
        np.add.at(found, owners[positions], likely.double().cpu().numpy())
        progress("asking the teacher", start + len(rows), len(order))
    return found.astype(np.float32)


def _check(model: PreTrainedModel, written: Sequences) -> None:
    known = model.get_input_embeddings().weight.shape[0]
    if int(written.tokens.max()) >= known:
        raise InputError(
            f"the teacher has {known} tokens and is asked about token {written.tokens.max()}: "
            "name a model that was trained with the same tokenizer before tasc augment"
        )
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    longest = int(written.lengths.max())
    if positions and longest > positions:
        raise InputError(
            f"the teacher reads {positions} positions, and an example has {longest} without new "
            "tokens: lower --max-length"
        )
