#!/usr/bin/env bash
# transformers 5.24.0 cannot add a PEFT adapter with any released PEFT, but can load one.
#
# With PEFT 0.21.2, the newest of 2026-11-29, PreTrainedModel.add_adapter and active_adapters end in
#   ValueError: The version of PEFT you are using is not compatible, please use a version >= 0.22.0
# PyPI has no such version, and pip installs the two together without a complaint (transformers does
# not depend on PEFT). load_adapter, and from_pretrained of a folder with an adapter, do not ask for
# a version and work. With transformers 5.23.0, add_adapter works, too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for version in 5.23.0 5.24.0; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 peft==0.21.2 "transformers==$version"
    "$version/bin/pip" check
done
cat > adapters.py <<'PY'
import peft
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 320}
LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4)).save_pretrained("model")
adapter = peft.LoraConfig(r=4, target_modules=["q_proj"], base_model_name_or_path="model")
peft.get_peft_model(LlamaForCausalLM.from_pretrained("model"), adapter).save_pretrained("adapter")
model = LlamaForCausalLM.from_pretrained("model")
model.load_adapter("adapter")
assert AutoModelForCausalLM.from_pretrained("adapter")._hf_peft_config_loaded
said = "added"
try:
    LlamaForCausalLM.from_pretrained("model").add_adapter(adapter)
except ValueError as error:
    said = str(error)
print(transformers.__version__, "with peft", peft.__version__, "loads an adapter; add_adapter:", said)
refused = transformers.__version__ == "5.24.0"
assert (">= 0.22.0" in said) == refused and (said == "added") != refused
PY
5.23.0/bin/python adapters.py
5.24.0/bin/python adapters.py
