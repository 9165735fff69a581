#!/usr/bin/env bash
# transformers 5.23.0 keeps an LM head that config.json denies, until the embedding is resized.
#
# from_pretrained loads a head that differs from the embedding although tie_word_embeddings is true,
# and logs that it does not tie the two. It leaves the configuration as it is. resize_token_embeddings
# reads the configuration again and replaces the head by the embedding, even if the size does not
# change, and logs nothing about it. Seen:
#   loaded: the head is the file's
#   after resize_token_embeddings(320), the present size: the head is the embedding
#   the same after config.tie_word_embeddings = False: the head is the file's
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 safetensors==0.8.0 transformers==5.23.0
cat > check.py <<'PY'
import json

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 320}
config = LlamaConfig(**sizes, num_attention_heads=4, tie_word_embeddings=False)
LlamaForCausalLM(config).save_pretrained("model")
values = json.load(open("model/config.json"))
json.dump(values | {"tie_word_embeddings": True}, open("model/config.json", "w"))
head = load_file("model/model.safetensors")["lm_head.weight"]
for corrected in (False, True):
    model = AutoModelForCausalLM.from_pretrained("model")
    assert torch.equal(model.lm_head.weight, head)
    if corrected:
        model.config.tie_word_embeddings = False
    model.resize_token_embeddings(320)
    kept = torch.equal(model.lm_head.weight, head)
    print("configuration corrected:", corrected, "- head kept after resizing:", kept)
    assert kept == corrected
PY
venv/bin/python check.py
