#!/usr/bin/env bash
# transformers 4.57.6 silently computes other logits from a model that transformers 5.23.0 saved.
#
# Version 5 writes rope_theta only inside of rope_parameters. Version 4.57 does not look there and
# takes its default of 10,000, without an error or a warning. Seen, for a random Llama with a
# rope_theta of 500,000:
#   saved by 5.23.0: rope_theta in config.json: None, in rope_parameters: 500000.0
#   4.57.6 reads rope_theta 10000.0; logits differ by 1.30 of the largest
#   with "rope_theta": 500000.0 added to config.json: no difference
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for version in 5.23.0 4.57.6; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 safetensors==0.8.0 "transformers==$version"
done
cat > save.py <<'PY'
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
rope = {"rope_type": "default", "rope_theta": 500000.0}
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 320}
config = LlamaConfig(**sizes, num_attention_heads=4, initializer_range=0.3, rope_parameters=rope)
model = LlamaForCausalLM(config).eval()
model.save_pretrained("model")
with torch.no_grad():
    torch.save(model(torch.arange(100)[None]).logits, "logits.pt")
PY
cat > read.py <<'PY'
import json

import torch
from transformers import AutoModelForCausalLM


def difference():
    model = AutoModelForCausalLM.from_pretrained("model").eval()
    with torch.no_grad():
        found = model(torch.arange(100)[None]).logits
    return float((found - expected).abs().max() / expected.abs().max()), model.config.rope_theta


expected = torch.load("logits.pt")
values = json.load(open("model/config.json"))
print("in config.json:", values.get("rope_theta"), values["rope_parameters"]["rope_theta"])
off, theta = difference()
print("as saved: rope_theta", theta, "difference", off)
assert theta == 10000.0 and off > 0.1
json.dump(values | {"rope_theta": 500000.0}, open("model/config.json", "w"))
off, theta = difference()
print("with rope_theta:", theta, "difference", off)
assert theta == 500000.0 and off < 1e-4
PY
5.23.0/bin/python save.py
4.57.6/bin/python read.py
