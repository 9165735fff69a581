"""The commands that are steps of recipes, too, in the order of ``tasc --help``."""

from .commands import analyze, augment, base, bench, finetune, index, tune, vocab
from .commands.serving import export, load

COMMANDS = tuple(
    module.COMMAND
    for module in (analyze, augment, finetune, bench, load, export, tune, index, vocab, base)
)
