"""One vLLM engine in a process of its own: ``python -m tests.serving.vllm_job JOB RESULT``.

JOB is a JSON file: the model, its prompts, and what additional_config says (null: no drafts). The
result is JSON, too: token ids of each phase, vLLM's counters, and what the proposer holds.
"""

import json
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vllm import LLM, SamplingParams

TOKENS, SEQUENCES, POSITIONS = 8, 8, 480
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 200}


def start(job: dict[str, Any]) -> LLM:
    """Start an engine whose chunks and cache are so small that prompts are cut and preempted."""
    options: dict[str, Any] = {
        "model": job["model"],
        "dtype": "float32",
        "enforce_eager": True,
        "max_model_len": POSITIONS,
        "max_num_seqs": SEQUENCES,
        "max_num_batched_tokens": 96,
        "block_size": 32,
        "num_gpu_blocks_override": 20,
        "disable_log_stats": False,
    }
    if job["tasc"] is not None:
        options["speculative_config"] = {
            "method": "custom_class",
            "model": "tasc.serving.vllm.TascProposer",
            "num_speculative_tokens": TOKENS,
        }
        options["additional_config"] = {"tasc": job["tasc"]}
    return LLM(**options)


def mended() -> bool:
    """Put right what a CPU build of vLLM gets wrong (its issue 55005); say whether it had to be.

    It loses the temperatures of requests that have drafts. Without this nothing about samples could
    be tested there.
    """
    import torch
    from vllm.v1.sample import rejection_sampler

    from tasc.serving.vllm import _keeps_temperatures

    def expand(x: Any, ends: Any, total: int, replace_from: int = 0, replace_to: int = 0) -> Any:
        counts = torch.diff(ends, prepend=ends.new_zeros(1)).long()
        put = torch.where(x == replace_from, replace_to, x)
        return put.repeat_interleave(counts, output_size=total)

    wrong = not _keeps_temperatures()
    if wrong:
        rejection_sampler.expand_batch_to_tokens = expand
        assert _keeps_temperatures()
    return wrong


def ids(answers: list[Any]) -> list[list[int]]:
    return [list(answer.outputs[0].token_ids) for answer in answers]


def metrics(llm: LLM) -> dict[str, float]:
    return {m.name: m.value for m in llm.get_metrics() if hasattr(m, "value")}


def alone(llm: LLM, job: dict[str, Any]) -> list[list[int]]:
    wanted = SamplingParams(**GREEDY)
    return [ids(llm.generate(p, wanted, use_tqdm=False))[0] for p in job["prompts"]]


def together(llm: LLM, job: dict[str, Any]) -> dict[str, Any]:
    answers = llm.generate(job["prompts"], SamplingParams(**GREEDY), use_tqdm=False)
    return {"prompts": [list(a.prompt_token_ids) for a in answers], "answers": ids(answers)}


def long_prompts(llm: LLM, job: dict[str, Any]) -> list[list[int]]:
    """Ask prompts that are longer than a chunk, more than fit side by side."""
    prompts: Any = [{"prompt_token_ids": p} for p in job["long"]]
    return ids(llm.generate(prompts, SamplingParams(**GREEDY), use_tqdm=False))


def cached(llm: LLM, job: dict[str, Any]) -> list[list[int]]:
    """Ask each long prompt twice in a row: the second time from the prefix cache."""
    prompts: Any = [{"prompt_token_ids": p} for p in job["long"]]
    wanted = SamplingParams(**GREEDY)
    answers = [llm.generate(p, wanted, use_tqdm=False) for p in prompts for _ in range(2)]
    return [ids(answer)[0] for answer in answers]


def preempted(llm: LLM, job: dict[str, Any]) -> list[list[int]]:
    """Let requests grow, past their ends, until the cache holds a few of them only."""
    prompts: Any = [{"prompt_token_ids": p} for p in job["growing"]]
    wanted = SamplingParams(temperature=0.0, max_tokens=job["growth"], ignore_eos=True)
    return ids(llm.generate(prompts, wanted, use_tqdm=False))


def sampled(llm: LLM, job: dict[str, Any]) -> list[list[int]]:
    """Draw many answers to one prompt, each with a seed of its own."""
    wanted = [
        SamplingParams(temperature=0.7, max_tokens=6, seed=seed) for seed in range(job["draws"])
    ]
    return ids(llm.generate([job["prompts"][0]] * len(wanted), wanted, use_tqdm=False))


def aborted(llm: LLM, job: dict[str, Any]) -> dict[str, list[int]]:
    """Ask some prompts, and abort every other one once it runs; return the rest's tokens."""
    engine, found = llm.llm_engine, {}
    for i, prompt in enumerate(job["prompts"][:16]):
        engine.add_request(str(i), prompt, SamplingParams(**GREEDY))
    for step in range(1000):
        for answer in engine.step():
            if answer.finished:
                found[answer.request_id] = list(answer.outputs[0].token_ids)
        if step == 0:
            engine.abort_request([str(i) for i in range(0, 16, 2)])
        if not engine.has_unfinished_requests():
            return found
    raise RuntimeError("requests do not end")


def endurance(llm: LLM, job: dict[str, Any]) -> dict[str, Any]:
    """Serve short requests of three tasks, of which some are aborted; some long ones between.

    An index is replaced after each twentieth. Returns the resident bytes then, the numbers of
    answers and of those unlike the first one to their prompt, and of requests that are held.
    """
    engine, tasks = llm.llm_engine, sorted(Path(job["tasc"]["tasks"]).glob("*/*.tasc"))
    tags = ["", *(f"[{file.parent.name}] " for file in tasks)]
    prompts: Any = [tag + prompt for prompt in job["prompts"] for tag in tags]
    growing: Any = [{"prompt_token_ids": ids} for ids in job["growing"]]
    short = SamplingParams(temperature=0.0, max_tokens=8)
    long = SamplingParams(temperature=0.0, max_tokens=job["growth"], ignore_eos=True)
    first: dict[int, list[int]] = {}
    memory, wrong, answered, most = [], 0, 0, job["requests"]
    for i in range(most):
        at = i % 500
        if at < len(growing):  # together more than the cache holds
            engine.add_request(str(i), growing[at], long)
        else:
            engine.add_request(str(i), prompts[i % len(prompts)], short)
        while engine.get_num_unfinished_requests() >= (4 * SEQUENCES if i + 1 < most else 1):
            for answer in engine.step():
                if answer.finished:
                    name, told = int(answer.request_id), list(answer.outputs[0].token_ids)
                    at = name % 500
                    key = -1 - at if at < len(growing) else name % len(prompts)
                    wrong += first.setdefault(key, told) != told
                    answered += 1
        if i % 10 == 9:
            engine.abort_request([str(i - 2 * SEQUENCES)])
        if (i + 1) % (most // 20) == 0:
            whole = tasks[len(memory) % len(tasks)]
            Path(shutil.copyfile(whole, whole.with_suffix(".new"))).replace(whole)
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            memory.append(pages * resource.getpagesize())
    return {"memory": memory, "wrong": wrong, "answered": answered, "kept": held(llm)}


def held(llm: LLM) -> int:
    core: Any = llm.llm_engine.engine_core
    runner = core.engine_core.model_executor.driver_worker.worker.model_runner
    return runner.drafter.proposer.requests.count


Phase = Callable[[LLM, dict[str, Any]], Any]
PHASES: tuple[Phase, ...] = (alone, together, long_prompts, cached, preempted, sampled)
PHASES += (aborted, endurance)


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    llm = start(job)
    found: dict[str, Any] = {"mended": mended()}
    for phase in PHASES:
        if phase.__name__ in job["phases"]:
            before = metrics(llm)
            answer = phase(llm, job)
            after = metrics(llm)
            counted = {name: after[name] - before.get(name, 0) for name in after}
            found[phase.__name__] = {"answer": answer, "counted": counted}
    Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
