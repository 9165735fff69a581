"""Exports of a stranger's model, and servers started from a folder that a stranger changed."""

import random
import shutil
from pathlib import Path

from tasc.serving.exports.llama_cpp import CACHES
from tasc.serving.table import EXPORTS
from tests.campaign.generators.models import CONFIG, WEIGHTS, damage, state
from tests.campaign.seeds import Seeds
from tests.models.strangers import bomb

_CACHES = {name for name, _ in CACHES.values()}  # n-grams for llama.cpp, not pickles
_NAMES = ("a\n```\nb", "$(touch x)", "'; touch x #", "é\u202e", "x" * 5000, "`id`", "--flag", "=")


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[object]:
    """Spoil a copy of a model in ``sandbox``; return the command that exports it."""
    folder = sandbox / "model"
    shutil.copytree(seeds.base, folder)
    for _ in range(rng.choice((1, 1, 2))):
        rng.choice((state, state, state, _weights, _adapter, _code, damage))(rng, folder)
    given: list[object] = ["export", folder, "--to", rng.choice(sorted(EXPORTS))]
    if rng.random() < 0.2:
        given[1] = f"{rng.choice(_NAMES)}={folder}"
    if rng.random() < 0.4:
        given += rng.choice((["--index", seeds.index], ["--data", seeds.task]))
    return given


def _weights(rng: random.Random, folder: Path) -> None:
    """Replace the weights by a pickle, junk, or a file without tensors."""
    file = folder / WEIGHTS
    if rng.random() < 0.4:
        bomb(file, folder / "ran")  # a folder that appears only where the pickle is loaded
        return
    empty = (2).to_bytes(8, "little") + b"{}"
    file.write_bytes(rng.choice((b"", b"junk" * 999, rng.randbytes(99), empty, bytes(4096))))


def _adapter(rng: random.Random, folder: Path) -> None:
    """Put an adapter beside the model, or in its place."""
    (folder / "adapter_config.json").write_text(rng.choice(("{}", "[", '{"peft_type": "LORA"}')))
    if rng.random() < 0.5:
        (folder / "adapter_model.safetensors").write_bytes(b"junk")
    if rng.random() < 0.3:
        (folder / CONFIG).unlink(missing_ok=True)


def _code(rng: random.Random, folder: Path) -> None:
    """Put Python where transformers looks for it."""
    name = rng.choice(("modeling_evil.py", "configuration_evil.py", "custom_generate/generate.py"))
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(f"import os; os.mkdir({str(folder / 'ran')!r})\n")
    state(rng, folder)


def check(output: Path) -> list[str]:
    """Name what an export holds that makes an engine run code of the model's author."""
    found = [
        f"exported {path.name}"
        for path in output.rglob("*")
        if path.suffix in (".py", ".bin") and path.name not in _CACHES
    ]
    for path in output.rglob("*.json"):
        if any(word in path.read_text() for word in ("auto_map", "custom_pipelines", "/kernel")):
            found.append(f"{path.name} names code")
    return found
