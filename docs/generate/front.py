"""The tables of the front pages: the README, the site's start page and the page of results."""

import json
from collections.abc import Iterable
from typing import Any

from docs.generate import markdown
from docs.generate.results import FOLDER

# The four rows of the README, as model and method in the file.
WAYS = {
    "original": ("baseline", "ar"),
    "+ drafts": ("baseline", "tasc-spec"),
    "+ new tokens": ("tasc-ft", "ar"),
    "+ both": ("tasc-ft", "tasc-spec"),
}


def speed(_block: str) -> str:
    """Return the speed, the quality and the equal outputs of a model with each part of TASC."""
    cells = _ways("smollm2-massive.json")
    first = cells["original"]
    return markdown.table(
        ["Model", "Speed", "Exact match", "Same output?"],
        [
            [
                way,
                f"{_times(first, cell):.2f}× ({cell['ms_per_sample']:.0f}{markdown.NO_BREAK}ms)",
                f"{cell['quality']['exact_match']:.1%}".replace("%", " %"),
                _same(cell),
            ]
            for way, cell in cells.items()
        ],
    )


def _same(cell: dict[str, Any]) -> str:
    """Say whether outputs are equal to those of the same model without drafts."""
    original = cell["model"] == "baseline"
    if cell["method"] == "ar":
        return "" if original else "no, retrained"
    equal = cell["lossless"]
    same = "yes" if original else "as above"
    return f"{same}, {equal['identical']} of {equal['of']}"


def summary(_block: str) -> str:
    """Return the table of topics of the results, one row per topic."""
    topics = (_speed, _tasks, _quality, _lossless, _serving, _drafting, _general, _structured)
    return markdown.table(["Topic", "Result"], [topic() for topic in topics])


def _speed() -> list[str]:
    return [
        "[Speed](speed-quality.md)",
        f"Voice commands, one prompt at a time: {_three_times('massive')}",
    ]


def _tasks() -> list[str]:
    tasks = {"labels of legal texts": "eur-lex", "SQL": "text2sql", "free text": "medquad"}
    times = "; ".join(f"{task}: {_three_times(name)}" for task, name in tasks.items())
    return ["[Other tasks](speed-quality.md)", times[0].upper() + times[1:]]


def _three_times(task: str) -> str:
    """Return the speed-ups of drafts, of new tokens, and of both."""
    first, *others = _ways(f"smollm2-{task}.json").values()
    names = ("drafts", "new tokens", "both")
    return ", ".join(
        f"{name} {_times(first, cell):.2f}×" for name, cell in zip(names, others, strict=True)
    )


def _quality() -> list[str]:
    pairs = {pair["model"]: pair for pair in _read("smollm2-massive-quality.json")["seeds_pairs"]}
    exact = pairs["tasc-ft"]["quality"]["exact_match"]
    low, high = exact["interval"]
    return [
        "[Quality](speed-quality.md)",
        "Voice commands, equal training compute, three seeds: exact match with new tokens "
        f"{exact['difference']:+.3f} (95 % CI {low:+.3f} to {high:+.3f})",
    ]


def _lossless() -> list[str]:
    files = [_read(f"lossless-{name}.json") for name in ("qwen2", "llama", "gemma", "mistral")]
    counts = [
        (file["prompts"], method["different"])
        for file in files
        for run in file["results"]
        for method in run["float32"].values()
    ]
    return [
        "[Losslessness](lossless.md)",
        f"{sum(prompts for prompts, _ in counts):,} greedy outputs in float32, all drafters, "
        f"{len(files)} architectures: {sum(different for _, different in counts)} differ from "
        "plain decoding",
    ]


def _serving() -> list[str]:
    loads = _read("serving-smollm2.json")["concurrency"]
    ways = {"drafts": "baseline ours", "new tokens": "tasc-ft alone", "both": "tasc-ft ours"}
    times = ", ".join(
        f"{name} {_range(arms[way]['times_first'] for arms in loads.values())}×"
        for name, way in ways.items()
    )
    first, *_, last = sorted(map(int, loads))
    text = f"Voice commands in vLLM, {first} to {last} requests at a time: {times}"
    return ["[Serving](serving.md)", text]


def _drafting() -> list[str]:
    names = ("chains-massive-ud.json", "chains-medquad.json")
    times = _range(cell["times_best_peer"] for name in names for cell in _read(name)["cells"])
    return [
        "[Drafting](drafting.md)",
        f"Tokens per step, relative to the best of arctic-inference and vLLM's n-grams: {times}×",
    ]


def _general() -> list[str]:
    times = _range(
        bench["kinds"][0]["tasc-spec"] for bench in _read("general-prompts.json")["benches"]
    )
    return [
        "[General prompts](drafting.md#prompts-without-a-corpus)",
        f"Spec-Bench and HumanEval, no known outputs: drafts {times}×",
    ]


def _structured() -> list[str]:
    tasks = {"voice commands as JSON": "smollm2", "SQL": "text2sql", "labels as JSON": "eur-lex"}
    times = []
    for task, name in tasks.items():
        cells = {cell["method"]: cell for cell in _read(f"structured-{name}.json")["cells"]}
        times.append(f"{task} {_times(cells['ar'], cells['tasc-spec']):.2f}×")
    return [
        "[Structured output](speed-quality.md#structured-output)",
        f"Drafts under a schema or grammar: {', '.join(times)}",
    ]


def _ways(file: str) -> dict[str, dict[str, Any]]:
    """Return the cells of the four ways to decode."""
    cells = {(cell["model"], cell["method"]): cell for cell in _read(file)["cells"]}
    return {way: cells[key] for way, key in WAYS.items()}


def _times(first: dict[str, Any], cell: dict[str, Any]) -> float:
    """Return how many times as fast as ``first`` a cell is."""
    return float(first["ms_per_sample"] / cell["ms_per_sample"])


def _range(values: Iterable[float]) -> str:
    found = list(values)
    return f"{min(found):.2f} – {max(found):.2f}"


def _read(file: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / file).read_text(encoding="utf-8"))
    return content
