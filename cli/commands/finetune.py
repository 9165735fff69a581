"""``tasc finetune``: adapters or all weights, with or without new tokens, or a draft head."""

from typing import Any

from .._command import Command
from .._console import say
from .._next import after_finetune


def show(result: dict[str, Any]) -> None:
    """Print what the training did."""
    kept = [found for found in result["evaluations"] if found["step"] == result["kept_step"]]
    held_out = f", validation loss {kept[-1]['loss']:.3f}" if kept else ""
    say(
        f"{result['steps']} steps in {result['seconds']:.0f} s, training loss "
        f"{result['losses'][-1]:.3f}{held_out}, {result['trainable_parameters']:,} of "
        f"{result['total_parameters']:,} parameters trained"
    )
    if result["kept_step"] < result["steps"]:
        early = "stopped early, " if result["stopped_early"] else ""
        say(f"{early}kept the weights of step {result['kept_step']}, the lowest validation loss")
    if result["cut_examples"]:
        say(f"{result['cut_examples']:,} examples were longer than allowed, and cut")


COMMAND = Command(
    "finetune",
    help="Train LoRA on an NF4 base, or all weights, new token rows mean-initialised; or a "
    "draft head.",
    show=show,
    leaves=(("head", "head"), ("adapter", "adapter"), ("model", "model")),
    next=after_finetune,
)
