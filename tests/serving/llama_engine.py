"""llama.cpp's server inside of a process, in an environment of its own: JSON in, JSON out.

stdin: {"model": file, "prompts": ids each, "texts": to encode, "tokens": to generate, "drafts":
folder of n-gram caches or null, "exact": whether attention is in float32, "grammar": of outputs,
"penalty": of repeated tokens among the last 2^17, "more": fields of the requests}
stdout: {"ids", "content", "encoded", "drafted", "accepted"}
"""

import json
import sys
import urllib.request
from typing import Any

import xllamacpp


def main() -> None:
    asked = json.load(sys.stdin)
    params = xllamacpp.CommonParams()
    params.model.path = asked["model"]
    params.n_ctx, params.cpuparams.n_threads, params.n_parallel = 1024, 1, 1
    params.warmup = False
    if asked["exact"]:
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if asked["drafts"]:
        kinds = xllamacpp.common_speculative_type
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_CACHE]
        caches = params.speculative.ngram_cache
        caches.lookup_cache_static = asked["drafts"] + "/ngrams-static.bin"
        caches.lookup_cache_dynamic = asked["drafts"] + "/ngrams-dynamic.bin"
    sampling = params.sampling
    sampling.penalty_repeat, sampling.penalty_last_n = asked["penalty"], 1 << 17
    server = xllamacpp.Server(params)

    def post(path: str, body: Any) -> Any:
        request = urllib.request.Request(
            server.listening_address + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        return json.load(urllib.request.urlopen(request))

    plain = {"n_predict": asked["tokens"], "temperature": 0, "return_tokens": True}
    plain |= {"cache_prompt": False, "grammar": asked["grammar"], **asked["more"]}
    done = [post("/completion", plain | {"prompt": prompt}) for prompt in asked["prompts"]]
    timings = [answer["timings"] for answer in done]
    found = {
        "ids": [answer["tokens"] for answer in done],
        "content": [answer["content"] for answer in done],
        "encoded": [post("/tokenize", {"content": text})["tokens"] for text in asked["texts"]],
        "drafted": sum(timing.get("draft_n", 0) for timing in timings),
        "accepted": sum(timing.get("draft_n_accepted", 0) for timing in timings),
    }
    sys.stdout.write(json.dumps(found) + "\n")


main()
