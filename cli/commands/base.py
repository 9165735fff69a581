"""``tasc base``: train a small base model and its tokenizer from scratch."""

from .._command import Command
from .finetune import show

COMMAND = Command(
    "base",
    help="Train a Qwen2-architecture model and a byte-level BPE tokenizer; nothing is downloaded.",
    show=show,
    leaves=(("model", ""),),
)
