"""``tasc base``: train a small base model and its tokenizer from scratch."""

from tasc.training.core.schedule import BaseReport

from .._console import say
from . import finetune


def show(report: BaseReport) -> None:
    """Print the training's figures, and a note if the tokenizer is smaller than requested."""
    finetune.show(report)
    tokens, wanted = report.vocabulary, report.vocabulary_wanted
    if wanted and tokens < wanted:
        say(f"the tokenizer has {tokens:,} tokens, not {wanted:,}: the texts contain no more pairs")
