"""Damaged model folders: config.json, the weights, their index, and other files."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

from tests.campaign import mutate
from tests.campaign.seeds import Seeds

CONFIG, WEIGHTS = "config.json", "model.safetensors"
SHARD, INDEX = "model-00001-of-00001.safetensors", "model.safetensors.index.json"
# Values that mean something to a library: sizes beyond measure, code, and other formats.
_STATED: tuple[tuple[str, Any], ...] = (
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
    ("auto_map", {"AutoModelForCausalLM": "modeling.Model", "AutoConfig": "modeling.Config"}),
    ("custom_pipelines", {"p": {"impl": "pipeline.P"}}),
    ("_attn_implementation", "someone/kernel"),
    ("_experts_implementation", {"": "someone/kernel@main:f"}),
    ("attn_implementation", "someone/kernel"),
    ("quantization_config", {"quant_method": "gptq", "bits": 4}),
    ("quantization_config", {"quant_method": "bitsandbytes", "load_in_4bit": True}),
    ("quantization_config", {"quant_method": "fp8"}),
    ("transformers_weights", "adapter_model.bin"),
    ("rope_parameters", {"rope_type": "yarn", "factor": 0}),
    ("layer_types", ["sliding_attention", "full_attention"]),
    ("sliding_window", 1),
    ("vision_config", {"num_hidden_layers": 10**7}),
    ("architectures", ["MambaForCausalLM"]),
    ("model_type", "gpt_neo"),
)


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[object]:
    """Damage a copy of a model in ``sandbox``; return a command of about a second that reads it."""
    folder, task, base = sandbox / "model", seeds.task, seeds.base
    shutil.copytree(base, folder)
    for _ in range(rng.choice((1, 1, 1, 2))):
        damage(rng, folder)
    bench = ["bench", task, "--split", "train", "--limit", "2", "--max-new-tokens", "4"]
    tune = ["finetune", task, "--model", folder, "--epochs", "1", "--limit", "8"]
    return rng.choice(
        (
            [*bench, "--model", folder, "--method", "prompt"],
            [*bench, "--model", base, "--draft", folder, "--method", "slem"],
            [*tune, "--merge"],
            [*tune, "--draft-head", "--max-new-tokens", "8"],
            ["vocab", base, folder, "--data", task, "--prompts", "1"],
        )
    )


def damage(rng: random.Random, folder: Path) -> None:
    rng.choice((_file, _file, _file, state, _index))(rng, folder)


def state(rng: random.Random, folder: Path) -> None:
    try:
        config = json.loads((folder / CONFIG).read_text())
        config |= [rng.choice(_STATED)]
        (folder / CONFIG).write_text(json.dumps(config))
    except (OSError, ValueError, TypeError, RecursionError):  # damaged before
        return


def _file(rng: random.Random, folder: Path) -> None:
    """Harm a file, most often one that describes the model or holds its weights."""
    files = sorted(p for p in folder.iterdir() if p.is_file())
    likely = [p for p in files if p.name in (CONFIG, "generation_config.json", WEIGHTS)]
    if files:
        mutate.damage(rng, rng.choice([*files, *likely, *likely]))


def _index(rng: random.Random, folder: Path) -> None:
    """Put an index in front of the weights, and perhaps name something else in it."""
    if (folder / WEIGHTS).is_file():
        (folder / WEIGHTS).rename(folder / SHARD)
        named = {"metadata": {}, "weight_map": {"model.norm.weight": SHARD}}
        if rng.random() < 0.8:
            named = mutate.mutate_json(rng, named)
        (folder / INDEX).write_text(mutate.dumps(named))
