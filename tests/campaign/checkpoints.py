"""Models whose outputs and logits are known otherwise: by transformers, and by a definition."""

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from tests.checkpoints import DTYPES, Checkpoint
from tests.generation_settings import generation_settings
from tests.pico import ARCHITECTURES, continued, make_base, restate

_NEW_TOKENS = 24
_METHODS = ("ar", "prompt", "tasc-spec:p_min=1,budget=12", "recycling:budget=9")
_ENGINES = ("transformers", "vllm", "sglang")
_IDS = torch.arange(1, 9)[None]


def settings(rng: Random) -> str:
    """Outputs are those of ``generate`` with any generation_config.json, also after an export."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import tasc
    from tasc.models.load import load_model

    architecture, stated = rng.choice(ARCHITECTURES), generation_settings(rng)
    method, engine = rng.choice(_METHODS), rng.choice(_ENGINES)
    tried = f"{architecture} {method} {engine} {json.dumps(stated)}"
    folder = make_base(Path("model"), architecture, seed=rng.randrange(10**6))
    restate(folder / "generation_config.json", **stated)
    draws = np.random.default_rng(rng.randrange(10**9))
    prompts = [draws.integers(1, 320, rng.randint(1, 30)) for _ in range(3)]
    theirs = AutoModelForCausalLM.from_pretrained(folder)
    expected = [continued(theirs, prompt, _NEW_TOKENS).tolist() for prompt in prompts]
    done = tasc.generate(
        *(load_model(str(folder)), AutoTokenizer.from_pretrained(folder)),
        [prompt.tolist() for prompt in prompts],
        *(method, expected),
        max_new_tokens=_NEW_TOKENS,
        batch_size=rng.choice([1, 3]),
    )
    assert [one.tokens.tolist() for one in done] == expected, tried
    Path("out").mkdir()
    tasc.export(tasc.ExportOptions(model=str(folder), to=engine)).save(Path("out"))
    served = AutoModelForCausalLM.from_pretrained("out")
    for prompt, tokens in zip(prompts, expected, strict=True):
        ids = torch.from_numpy(prompt)[None]
        out = served.generate(ids, max_new_tokens=_NEW_TOKENS, pad_token_id=0)
        assert out[0, len(prompt) :].tolist() == tokens, f"{tried}, exported"
    return tried


def heads(rng: Random) -> str:
    """A trained, merged or exported model is what its files define, whatever its config says."""
    from transformers import AutoModelForCausalLM

    import tasc
    from tasc.errors import InputError
    from tests.training import test_tying as tying

    architecture, folder = rng.choice(ARCHITECTURES), Path("model")
    says = rng.choice([True, False] if architecture == "gemma" else [True, False, None])
    tied, has_head = rng.random() < 0.5, rng.random() < 0.7
    checkpoint = Checkpoint(tied, says, has_head, rng.choice(list(DTYPES)))
    checkpoint.save(folder, architecture, seed=rng.randrange(10**6))
    tried = f"{architecture} {checkpoint}"
    export = tasc.ExportOptions(model=str(folder), to=rng.choice(_ENGINES))
    if checkpoint.has_no_head:
        with pytest.raises(InputError, match="has no LM head"):
            tasc.export(export)
        return f"{tried}, refused"
    if rng.random() < 0.5:
        embedding, head = tying.matrices(folder)
        weights = {"model.embed_tokens.weight": embedding, "lm_head.weight": head}
        expected, read = tying.untied(folder, **weights), Path("exported")
        read.mkdir()
        tasc.export(export).save(read)
        tried += f", {export.to}"
    else:
        adapter, read = _merged(rng, folder)
        expected = tying.defined(checkpoint, folder, adapter)
        tried += ", merged"
    values = json.loads((read / "config.json").read_text())
    assert values["tie_word_embeddings"] is checkpoint.means_tied, tried
    found = tying.logits(AutoModelForCausalLM.from_pretrained(read).float(), _IDS)
    tying.assert_near(found, tying.logits(expected, _IDS), checkpoint.dtype)
    return tried


def _merged(rng: Random, folder: Path) -> tuple[Path, Path]:
    """Train and merge a model; return the file of its adapter, and the merged model's folder."""
    from tasc.training.finetuned import Start
    from tasc.training.train import finetune
    from tests.training.samples import ROWS, corpus, phrases
    from tests.training.test_tying import OPTIONS, replace

    for name in ("augmented", "work", "out"):
        Path(name).mkdir()
    phrases(folder, Path("augmented"))
    options = replace(OPTIONS, epochs=0.5, seed=rng.randrange(99))
    start = Start(str(folder), "augmented", ROWS)
    finetune(start, corpus(), None, options, work=Path("work")).save(Path("out"))
    return Path("out/adapter/adapter_model.safetensors"), Path("out/model")
