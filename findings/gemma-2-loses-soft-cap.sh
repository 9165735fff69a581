#!/usr/bin/env bash
# transformers up to 5.20 runs Gemma 2 without the cap on its attention scores, unless told not to.
#
# Gemma 2 caps the scores of attention (attn_logit_softcapping). With no attn_implementation given,
# transformers 5.20.2 chooses "sdpa", whose kernel has no cap, and drops the setting without a
# warning; so trained models get other logits than with "eager". transformers 5.24.0 chooses "eager".
# Seen for a random model with a cap of 0.5:
#   5.20.2 chooses sdpa: logits differ from those of eager by 0.12 of the largest
#   5.24.0 chooses eager: no difference
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for version in 5.20.2 5.24.0; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 "transformers==$version"
done
cat > cap.py <<'PY'
import torch
import transformers
from transformers import Gemma2Config, Gemma2ForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64}
heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
caps = {"attn_logit_softcapping": 0.5, "final_logit_softcapping": None, "query_pre_attn_scalar": 1}
config = Gemma2Config(**sizes, **heads, **caps, initializer_range=0.5)
Gemma2ForCausalLM(config).save_pretrained("model")
ids = torch.arange(20)[None]
with torch.no_grad():
    chosen = Gemma2ForCausalLM.from_pretrained("model").eval()
    logits = chosen(ids).logits
    eager = Gemma2ForCausalLM.from_pretrained("model", attn_implementation="eager").eval()
    expected = eager(ids).logits
off = float((logits - expected).abs().max() / expected.abs().max())
name = chosen.config._attn_implementation
print(transformers.__version__, "chooses", name, "- logits differ by", round(off, 2), "of the largest")
if transformers.__version__ == "5.20.2":
    assert name == "sdpa" and off > 0.1
else:
    assert name == "eager" and off == 0
PY
5.20.2/bin/python cap.py
5.24.0/bin/python cap.py
