"""Commands on good input, small enough to be run by the hundred: what faults are tried on."""

from collections.abc import Callable, Sequence

from tests.campaign.seeds import Seeds

SHORT = ("--epochs", "1", "--limit", "12")
PROOF = ("--split", "train", "--limit", "2", "--max-new-tokens", "8", "--warmup", "0")
COMMANDS: dict[str, Callable[[Seeds], Sequence[object]]] = {
    "analyze": lambda s: ("analyze", s.folder, "--tokenizer", s.tokenizer),
    "analyze --grid": lambda s: ("analyze", s.folder, "--tokenizer", s.tokenizer, "--grid"),
    "augment": lambda s: ("augment", s.folder, "--tokenizer", s.tokenizer, "--budget", "5"),
    "augment added": lambda s: (
        *("augment", s.task, "--tokenizer", s.tokenizer, "--budget", "auto", "--export", "added"),
    ),
    "index": lambda s: ("index", s.task, "--tokenizer", s.tokenizer),
    "base": lambda s: ("base", s.task, "--preset", "pico", "--vocabulary", "300", *SHORT),
    "finetune": lambda s: (
        *("finetune", s.folder, "--model", s.base, "--augmented", s.augmented, "--merge", *SHORT),
    ),
    "draft head": lambda s: (
        *("finetune", s.task, "--model", s.base, "--draft-head", "--max-new-tokens", "8", *SHORT),
    ),
    "bench": lambda s: (*("bench", s.task, "--model", s.base, "--index", s.index, *PROOF),),
    "bench models": lambda s: (
        *("bench", s.task, "--model", s.base, "--model", s.finetuned, "--repeats", "2", *PROOF),
    ),
    "bench head": lambda s: (
        *("bench", s.task, "--model", s.base, "--draft-head", s.head, "--method", "eagle", *PROOF),
    ),
    "tune": lambda s: (*("tune", s.folder, "--tokenizer", s.tokenizer, "--split", "validation"),),
    "vocab": lambda s: (
        *("vocab", s.base, s.base, "--data", s.task, "--prompts", "2", "--positions", "2"),
    ),
    "run": lambda s: ("run", s.recipe),
}
