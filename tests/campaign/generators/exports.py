"""Exports of a stranger's model, and servers started from a folder that a stranger changed."""

import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasc.serving.exports.llama_cpp import CACHES
from tasc.serving.table import EXPORTS
from tests.campaign.generators.models import WEIGHTS, damage
from tests.models.strangers import bomb

if TYPE_CHECKING:
    from tests.campaign.seeds import Seeds

CONFIG = "config.json"
_CACHES = {name for name, _ in CACHES.values()}  # n-grams for llama.cpp, not pickles
_ODD: tuple[tuple[str, Any], ...] = (
    *(("vocab_size", n) for n in (0, -1, 2**31, 2**40, 1e300, "1", None)),
    *(("num_hidden_layers", n) for n in (0, -1, 10**9, 2**63, True, [2])),
    *(("num_attention_heads", n) for n in (0, -2, 10**9, 3)),
    *(("num_key_value_heads", n) for n in (0, -2, 10**9, 3)),
    *(("hidden_size", n) for n in (0, -64, 2**40)),
    *(("intermediate_size", n) for n in (0, -1, 2**40)),
    *(("head_dim", n) for n in (0, -1, 2**40)),
    *(("max_position_embeddings", n) for n in (0, -1, 2**40)),
    *(("rope_theta", n) for n in (0, -1, float("nan"), 10**400)),
    *(("rms_norm_eps", n) for n in (float("inf"), -1, "x")),
    *(("eos_token_id", n) for n in (-1, 2**40, [], ["a"], "x")),
    ("auto_map", {"AutoModelForCausalLM": "evil--repo.modeling.Model"}),
    ("custom_pipelines", {"p": {"impl": "pipeline.P"}}),
    ("_attn_implementation", "someone/kernel"),
    ("_experts_implementation", {"": "someone/kernel@main:f"}),
    ("attn_implementation", "someone/kernel"),
)
_NAMES = ("a\n```\nb", "$(touch x)", "'; touch x #", "é\u202e", "x" * 5000, "`id`", "--flag", "=")


def build(rng: random.Random, seeds: "Seeds", sandbox: Path) -> list[str]:
    """Spoil a copy of a model in ``sandbox``; return the command that exports it."""
    folder = sandbox / "model"
    shutil.copytree(seeds.base, folder)
    for _ in range(rng.choice((1, 1, 2))):
        rng.choice((_number, _number, _number, _weights, _adapter, _code, damage))(rng, folder)
    given = ["export", str(folder), "--to", rng.choice(sorted(EXPORTS))]
    if rng.random() < 0.2:
        given[1] = f"{rng.choice(_NAMES)}={folder}"
    if rng.random() < 0.4:
        given += rng.choice((["--index", str(seeds.index)], ["--data", str(seeds.task)]))
    return given


def _number(rng: random.Random, folder: Path) -> None:
    try:
        config = json.loads((folder / CONFIG).read_text())
        config |= [rng.choice(_ODD)]
        (folder / CONFIG).write_text(json.dumps(config))
    except (OSError, ValueError, TypeError, RecursionError):  # damaged before
        return


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
    _number(rng, folder)


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
