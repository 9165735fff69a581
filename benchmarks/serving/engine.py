"""Run vLLM as a process that reads lists of prompts and writes answers, as lines of JSON.

A line of stdin is ``{"prompts", "concurrency", "schema"}``, a line of stdout the result of
``answers``. A new request starts when one ends, as from clients that wait for an answer before the
next request.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

SEQUENCES = 32  # maximum number at a time
PROMPT, BLOCK = 384, 128  # maximum tokens of a prompt, tokens of a cache block


def main() -> None:
    """Start an engine. Arguments: model, options as JSON, eager or compiled, maximum tokens."""
    from vllm import LLM

    model, extra, mode, most = sys.argv[1:]
    positions = PROMPT + int(most)
    with os.fdopen(os.dup(1), "w") as told:
        os.dup2(2, 1)  # stdout is for answers; the engine prints to stderr
        llm = LLM(
            model=model,
            enforce_eager=mode == "eager",
            max_model_len=positions,
            max_num_seqs=SEQUENCES,
            max_num_batched_tokens=positions,
            num_gpu_blocks_override=SEQUENCES * (positions // BLOCK + 1),  # exactly enough for all
            enable_prefix_caching=False,
            disable_log_stats=False,
            **json.loads(extra),
        )
        print("ready", file=told, flush=True)
        for i, line in enumerate(sys.stdin):
            found = answers(llm, str(i), int(most), **json.loads(line))
            print(json.dumps(found), file=told, flush=True)


def answers(
    llm: Any,  # noqa: ANN401 - vLLM's own
    name: str,
    most: int,
    prompts: Sequence[str],
    concurrency: int,
    schema: str | None,
) -> dict[str, Any]:
    """Return times, forwards, tokens and texts by prompt, and vLLM's counts of drafts.

    An answer has at most ``most`` tokens and satisfies the JSON Schema, if there is one. Each
    call needs a new ``name``: vLLM's suffix drafter forgets a request if its name is used again.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    structured = None if schema is None else StructuredOutputsParams(grammar=schema)
    wanted = SamplingParams(temperature=0.0, max_tokens=most, structured_outputs=structured)
    engine = llm.llm_engine
    names = [f"{name}-{i}" for i in range(len(prompts))]
    told: dict[str, Any] = {}
    before = counters(llm)
    begun = forwards = 0
    start, busy = time.perf_counter(), time.process_time()
    while len(told) < len(prompts):
        while begun < len(prompts) and begun - len(told) < concurrency:
            engine.add_request(names[begun], prompts[begun], wanted)
            begun += 1
        found = engine.step()
        for answer in found:
            if answer.finished:
                told[answer.request_id] = answer.outputs[0]
        forwards += bool(found)  # a step without one waits until a schema is compiled
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    after = counters(llm)
    return {
        "seconds": seconds,
        "busy": busy,  # CPU seconds, which other processes do not stretch
        "forwards": forwards,
        "ids": [list(told[name].token_ids) for name in names],
        "texts": [told[name].text for name in names],
        "counted": {name: after[name] - before.get(name, 0) for name in after},
    }


def counters(llm: Any) -> dict[str, float]:  # noqa: ANN401 - vLLM's own
    """Return vLLM's counts of drafts."""
    known = "vllm:spec_decode_num_"
    return {
        metric.name.removeprefix(known): metric.value
        for metric in llm.get_metrics()
        if metric.name.startswith(known) and hasattr(metric, "value")
    }


if __name__ == "__main__":
    main()
