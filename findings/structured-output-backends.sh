#!/usr/bin/env bash
# The two grammar engines of vLLM 0.32.0, xgrammar 0.2.8 ("auto" prefers it) and llguidance 1.7.6
# ("guidance"), let through different documents of the same JSON Schema. With one schema, "auto" and
# "guidance" therefore serve different outputs, and each refuses documents that are valid:
#   - a further property (additionalProperties is true by default): xgrammar refuses it
#   - "\/", an escape of JSON: llguidance refuses it
#   - a pattern that is not anchored: xgrammar reads it as if it were
#   - "\n", one character, with maxLength 1: xgrammar refuses it
#   - {"const": 1.0}: both refuse 1.0, which json.dumps writes, and accept 1
# xgrammar also lets through an invalid document: it ignores a bound in the second part of an allOf.
# Output seen: a table of seven rows, and "as described".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip=("$folder/venv/bin/pip" install --quiet --disable-pip-version-check)
"${pip[@]}" "torch==2.13.0"
"${pip[@]}" "apache-tvm-ffi==0.1.15.post2" "llguidance==1.7.6" "numpy==2.4.6" "pydantic==2.14.3" \
  "transformers==5.23.0"
"${pip[@]}" --no-deps "xgrammar==0.2.8" # its dependency triton is for GPUs
"$folder/venv/bin/python" - <<'PYTHON'
import json
import sys

import llguidance
import xgrammar

OBJECT = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
# schema, document, whether it is valid, xgrammar, llguidance
EXPECTED = [
    (OBJECT, '{"b": "x", "c": 1}', True, False, True),
    (OBJECT, r'{"b": "\/"}', True, True, False),
    ({"type": "string", "pattern": "b"}, '"abc"', True, False, True),
    ({"type": "string", "maxLength": 1}, r'"\n"', True, False, True),
    ({"const": 1.0}, "1.0", True, False, False),
    ({"const": 1.0}, "1", True, True, True),
    ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, "1", False, True, False),
]
BYTES = [bytes([i]) for i in range(256)]
compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo([*BYTES, b"</s>"], stop_token_ids=[256]))
engine = llguidance.LLTokenizer("byte")


def by_xgrammar(schema, document):
    grammar = compiler.compile_json_schema(json.dumps(schema), any_whitespace=True)
    matcher = xgrammar.GrammarMatcher(grammar)
    return all(map(matcher.accept_token, document.encode())) and matcher.accept_token(256)


def by_llguidance(schema, document):
    options = {"whitespace_flexible": True}  # as vLLM's backend "guidance" passes them
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults=options)
    matcher, given = llguidance.LLMatcher(engine, grammar), list(document.encode())
    return matcher.try_consume_tokens(given) == len(given) and matcher.is_accepting()


found = [(*row[:3], by_xgrammar(*row[:2]), by_llguidance(*row[:2])) for row in EXPECTED]
for schema, document, valid, first, second in found:
    print(f"valid {valid!s:5} xgrammar {first!s:5} llguidance {second!s:5} {document} {schema}")
if found != EXPECTED:
    sys.exit("changed")
print("as described")
PYTHON
