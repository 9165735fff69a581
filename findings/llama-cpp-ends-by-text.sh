#!/usr/bin/env bash
# llama.cpp takes tokens with certain texts for ends of outputs, whatever the GGUF file states.
#
# A file that states one end token, <|the-end|>, and has two more tokens, <tool_call> and </s>, both
# of the type "user defined". A bias of the request makes the model write one of the two.
# Expected: neither ends the output, as the file states another end token.
# Seen with xllamacpp 2026.10.11549 (llama.cpp) and gguf 0.17.1 on Linux x86-64:
#   <tool_call>: 3 tokens, text '<tool_call><tool_call><tool_call>', stopped by limit
#   </s>: 1 tokens, text '', stopped by eos
# Exits with a status other than 0 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  xllamacpp==2026.10.11549 gguf==0.17.1 numpy==2.3.5
cat > "$folder/ends.py" <<'PYTHON'
import json
import sys
import urllib.request

import gguf
import numpy as np
import xllamacpp

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
file, width = sys.argv[1], 32
letters = [chr(i) for i in range(33, 127)]
tokens = [*letters, "<|the-end|>", "<tool_call>", "</s>"]
end, call, other = range(len(letters), len(tokens))

writer = gguf.GGUFWriter(file, "llama")
writer.add_context_length(128)
writer.add_embedding_length(width)
writer.add_block_count(1)
writer.add_feed_forward_length(width)
writer.add_head_count(2)
writer.add_head_count_kv(2)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(width // 2)
writer.add_vocab_size(len(tokens))
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("gpt-2")
writer.add_token_list(tokens)
writer.add_token_types([*[NORMAL] * len(letters), CONTROL, USER_DEFINED, USER_DEFINED])
writer.add_token_merges(["a b"])
writer.add_eos_token_id(end)
random = np.random.default_rng(0)
square = (width, width)
shapes = {"token_embd": (len(tokens), width), "output": (len(tokens), width), "output_norm": width}
block = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
shapes |= {f"blk.0.{name}": square for name in block}
shapes |= {f"blk.0.{name}": width for name in ("attn_norm", "ffn_norm")}
for name, shape in shapes.items():
    writer.add_tensor(f"{name}.weight", random.normal(0, 0.1, shape).astype(np.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

params = xllamacpp.CommonParams()
params.model.path, params.warmup = file, False
params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 128, 1, 1
server = xllamacpp.Server(params)
found = {}
for token in (call, other):
    body = {"prompt": [1, 2], "n_predict": 3, "temperature": 0, "return_tokens": True}
    body["logit_bias"] = [[token, 1000.0]]
    request = urllib.request.Request(
        f"{server.listening_address}/completion",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    answer = json.load(urllib.request.urlopen(request))
    found[tokens[token]] = len(answer["tokens"]), answer["content"], answer["stop_type"]
for text, seen in found.items():
    print(f"{text}: {seen[0]} tokens, text {seen[1]!r}, stopped by {seen[2]}")
expected = {"<tool_call>": (3, 3 * "<tool_call>", "limit"), "</s>": (1, "", "eos")}
sys.exit(found != expected)
PYTHON
"$folder/venv/bin/python" "$folder/ends.py" "$folder/model.gguf" 2> "$folder/log"
