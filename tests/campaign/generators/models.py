"""Damaged model folders: config.json, the weights, their index, other files, and draft heads."""

import json
import random
import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.campaign.mutate import mutate_bytes, mutate_json

if TYPE_CHECKING:
    from tests.campaign.seeds import Seeds

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_STRANGE_KEYS: tuple[tuple[str, Any], ...] = (
    *(("quantization_config", {"quant_method": "gptq", "bits": 4}),),
    *(("quantization_config", {"quant_method": "bitsandbytes", "load_in_4bit": True}),),
    *(("quantization_config", {"quant_method": "fp8"}),),
    *(("auto_map", {"AutoModelForCausalLM": "modeling.Model", "AutoConfig": "modeling.Config"}),),
    *(("transformers_weights", "adapter_model.bin"), ("attn_implementation", "someone/kernel")),
    *(("rope_parameters", {"rope_type": "yarn", "factor": 0}),),
    *(("layer_types", ["sliding_attention", "full_attention"]), ("sliding_window", 1)),
    *(("vision_config", {"num_hidden_layers": 10**7}), ("architectures", ["MambaForCausalLM"])),
    *(("model_type", "gpt_neo"),),
)


def build(rng: random.Random, seeds: "Seeds", sandbox: Path) -> list[str]:
    """Damage a copy of a model, or of a draft head, in ``sandbox``; return a command that reads it.

    The command takes about a second and names no output.
    """
    head = rng.random() < 0.25
    good = Path(seeds.head if head else seeds.base)
    folder = sandbox / ("head" if head else "model")
    shutil.copytree(good, folder)
    inner = folder / "head" if (folder / "head").is_dir() else folder
    for _ in range(rng.choice((1, 1, 1, 2))):
        damage(rng, inner)
    task, base = str(seeds.task), str(seeds.base)
    bench = ["bench", task, "--split", "train", "--limit", "2", "--max-new-tokens", "4"]
    if head:
        kind = rng.choice(("eagle", "fr-spec:size=16", "microspec"))
        return [*bench, "--model", base, "--draft-head", str(folder), "--method", kind]
    tune = ["finetune", task, "--model", str(folder), "--epochs", "1", "--limit", "8"]
    return rng.choice(
        (
            [*bench, "--model", str(folder), "--method", "prompt"],
            [*bench, "--model", base, "--draft", str(folder), "--method", "slem"],
            [*tune, "--merge"],
            [*tune, "--draft-head", "--max-new-tokens", "8"],
            ["vocab", base, str(folder), "--data", task, "--prompts", "1", "--positions", "1"],
        )
    )


def damage(rng: random.Random, folder: Path) -> None:
    """Change one thing in a model folder."""
    change = rng.choice((_config, _config, _config, _header, _header, _bytes, _index, _file, _key))
    change(rng, folder)


def _config(rng: random.Random, folder: Path) -> None:
    names = [n for n in ("config.json", "generation_config.json") if (folder / n).is_file()]
    if not names:
        return
    file = folder / (names[0] if rng.random() < 0.8 else names[-1])
    _rewrite(rng, file)


def _rewrite(rng: random.Random, file: Path) -> None:
    try:
        file.write_text(json.dumps(mutate_json(rng, json.loads(file.read_text()))))
    except (ValueError, RecursionError):  # damaged before, or nested more than Python writes
        file.write_text("[" * 100_000)


def _key(rng: random.Random, folder: Path) -> None:
    """Add a key that means something to a library."""
    try:
        config = json.loads((folder / "config.json").read_text())
        config |= dict([rng.choice(_STRANGE_KEYS)])
    except (OSError, ValueError, TypeError, RecursionError):
        return
    (folder / "config.json").write_text(json.dumps(config))


def _header(rng: random.Random, folder: Path) -> None:
    """Change the header of the weights: its length, or what it says of a tensor."""
    data = (folder / WEIGHTS).read_bytes() if (folder / WEIGHTS).is_file() else b""
    if len(data) < 8:
        return
    length = struct.unpack("<Q", data[:8])[0]
    if rng.random() < 0.25:
        wrong = rng.choice((0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1))
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", wrong) + data[8:])
        return
    try:
        header = json.loads(data[8 : 8 + length])
        text = json.dumps(mutate_json(rng, header)).encode()
    except (ValueError, RecursionError, OverflowError):
        return
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def _bytes(rng: random.Random, folder: Path) -> None:
    files = sorted(p for p in folder.iterdir() if p.is_file())
    if files:
        file = rng.choice(files)
        file.write_bytes(mutate_bytes(rng, file.read_bytes()))


def _index(rng: random.Random, folder: Path) -> None:
    """Put an index in front of the weights, and perhaps name something else in it."""
    if not (folder / WEIGHTS).is_file():
        return
    (folder / WEIGHTS).rename(folder / "model-00001-of-00001.safetensors")
    names = {"model.norm.weight": "model-00001-of-00001.safetensors"}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": names}))
    if rng.random() < 0.8:
        _rewrite(rng, folder / INDEX)


def _file(rng: random.Random, folder: Path) -> None:
    """Remove a file, empty it, or put a folder or a link where it was."""
    files = sorted(p for p in folder.iterdir() if p.is_file())
    if not files:
        return
    file = rng.choice(files)
    file.unlink()
    change = rng.randrange(5)
    if change == 0:
        file.write_bytes(b"")
    elif change == 1:
        file.mkdir()
    elif change == 2:
        file.symlink_to("/dev/null")
    elif change == 3:
        file.symlink_to(file.name)
