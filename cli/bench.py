"""``tasc bench``: measure models × methods on one decoding loop and report."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tasc.errors import InputError

from . import _options as o
from ._console import say

if TYPE_CHECKING:
    from tasc.recipe.steps import Outcome


def bench(
    source: o.Source,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model folder or Hub id, as PATH or LABEL=PATH; repeatable."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="ar, tasc-spec, tasc-spec-paper, corpus, prompt, prompt-lookup, ngram-trie, "
            "suffix, ngrammys; with --draft slem, tli, slrs, union, standard; with --draft-head "
            "eagle, fr-spec, microspec, medusa; with options as in tasc-spec:width=1,budget=8 or "
            ":budget=auto; repeatable."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="exact_match, token_accuracy, micro_f1; repeatable.")
    ] = None,
    delimiter: Annotated[str, typer.Option(help="What separates items for micro_f1.")] = ";",
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Choose tasc-spec's options on validation outputs: only tokenizers of --model, "
            "or --tokenizer, are read.",
        ),
    ] = False,
    tokenizer: Annotated[str | None, typer.Option(help="With --tune, instead of --model.")] = None,
    budget: Annotated[int, typer.Option(help="With --tune: draft nodes a step.")] = 12,
    corpus_split: Annotated[str, typer.Option(help="Split whose outputs drafters know.")] = "train",
    index: Annotated[
        list[str] | None,
        typer.Option(help="Folder of tasc index, as DIR or NAME=DIR, instead; repeatable."),
    ] = None,
    draft_head: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder of tasc finetune --draft-head, for eagle, fr-spec, microspec, or medusa; "
            "repeatable: each method takes the first of its kind."
        ),
    ] = None,
    token_counts: Annotated[
        str | None,
        typer.Option(
            help="Folder of tasc analyze: ranks tokens for fr-spec and options size, frequent.",
            show_default="by training outputs",
        ),
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option(
            help="Model with any tokenizer that slem, tli, slrs draft with.",
            show_default="byte n-grams",
        ),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Longest output, in tokens.")] = 256,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or auto.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    threads: o.Threads = None,
    repeats: Annotated[int, typer.Option(help="Passes over all samples.")] = 1,
    warmup: Annotated[int, typer.Option(help="Samples that warm up, unmeasured.")] = 3,
    batch_size: Annotated[int, typer.Option(help="Samples decoded at a time.")] = 1,
    temperature: Annotated[
        float | None, typer.Option(help="Sample, with --seed.", show_default="greedy")
    ] = None,
    top_k: Annotated[int, typer.Option(help="Sample among so many tokens; 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Sample within so much of the law.")] = 1.0,
    verify: Annotated[
        str,
        typer.Option(
            help="With --temperature: sampled, for any method, where outputs depend on the seed "
            "alone; rejection (chains) or multi-branch (trees) for drafts drawn at random, as by "
            "slem, tli, slrs, union, standard."
        ),
    ] = "sampled",
    graphs: Annotated[str, typer.Option(help="CUDA graphs: auto (on CUDA) or off.")] = "auto",
    compile: Annotated[
        bool, typer.Option("--compile", help="torch.compile the forward: minutes, once a shape.")
    ] = False,
    input_column: o.InputColumn = "input",
    output_column: o.OutputColumn = "output",
    template: o.Template = "{input}\\n",
    config: o.HubConfig = None,
    split: Annotated[
        str | None,
        typer.Option(help="Split to work on.", show_default="test, or validation to tune"),
    ] = None,
    limit: o.Limit = None,
    seed: o.Seed = 0,
    output: o.Output = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Measure models and methods side by side; writes results.json and report.html."""
    data = o.data(source, input_column, output_column, template, config)
    if not (model or (tune and tokenizer)):
        what = "tune: give --tokenizer or --model" if tune else "measure: give --model"
        raise InputError(f"tasc bench: there is nothing to {what}")
    if tune:
        tuning = {"tokenizer": tokenizer or (model[0] if model else None), "budget": budget}
        common = {"corpus_split": corpus_split, "split": split, "limit": limit, "seed": seed}
        _finish(o.step("tune", data, tuning | common, output=output, force=force), json)
        return
    options = {
        "models": model,
        "methods": method or None,
        "metrics": metric or None,
        "delimiter": delimiter,
        "corpus_split": corpus_split,
        "indexes": index or None,
        "draft_heads": tuple(draft_head or ()),
        "token_counts": token_counts,
        "draft_model": draft,
        "max_new_tokens": max_new_tokens,
        "dtype": dtype,
        "device": device,
        "threads": threads,
        "repeats": repeats,
        "warmup": warmup,
        "batch_size": batch_size,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "verify": verify,
        "graphs": graphs,
        "compile": compile,
        "split": split,
        "limit": limit,
        "seed": seed,
    }
    _finish(o.step("bench", data, options, output=output, force=force), json)


def _finish(done: "Outcome", json: bool) -> None:
    if json:
        from ._console import print_json

        print_json(done.result)
    elif "trials" in done.result:
        show_tuning(done.result)
        say(f"tuning: {done.output / 'tuning.json'}")
    else:
        show(done.result)
        say(f"report: {done.output / 'report.html'}")


def show_tuning(result: dict[str, Any]) -> None:
    """Print what was chosen and what it brings."""
    for name in ("default", "best"):
        trial = result[name]
        low, high = trial["tokens_per_step_interval"]
        say(
            f"{name}: {trial['tokens_per_step']:.2f} tokens a step (95 % interval {low:.2f} to "
            f"{high:.2f}), {trial['method']}"
        )


SHORT = {"exact_match": "exact", "token_accuracy": "tok.acc", "micro_f1": "F1"}


def show(result: dict[str, Any]) -> None:
    """Print the table of cells; ms, tokens and steps are means per output.

    In a batch the milliseconds of an output are its share of the batch's time.
    """
    from tasc.bench.record import speedup

    from ._console import table

    rows, settings = result["cells"], result["settings"]
    metrics, sampling = list(rows[0]["quality"]), settings["sampling"]
    columns = ["model", "method", "ms", "speed", "tokens", "steps", "tokens/step", "lossless"]
    table(
        f"{result['task']['source']}: {result['task']['samples']} samples, "
        f"batch {settings['batch_size']}, {settings['dtype']} on {settings['device']}"
        + (f", temperature {sampling['temperature']:g}, {sampling['verify']}" if sampling else ""),
        [*columns, *(SHORT[m] for m in metrics)],
        [
            [
                r["model"],
                r["method"],
                f"{r['ms_per_sample']:.2f}",
                f"{speedup(r, rows[0]):.2f}×",
                f"{r['tokens_per_output']:.2f}",
                f"{r['decoding_steps_per_output']:.2f}",
                f"{r['tokens_per_step']:.2f}",
                _lossless(r["lossless"]),
                *(f"{r['quality'][m]:.3f}" for m in metrics),
            ]
            for r in rows
        ],
        text_columns=2,
    )
    if rows[0]["lossless"] is None:
        say("sampled: outputs differ by chance, so speed is by tokens per second")
    for found in result["reference"]:
        say(reference_line(found, settings["dtype"]))


def reference_line(found: dict[str, Any], dtype: str) -> str:
    """Say how many greedy outputs of a model are those of transformers' own generate."""
    name, counts = f"{found['model']}, {found['method']}", f"{found['identical']} of {found['of']}"
    if found["identical"] == found["of"]:
        return f"as transformers' own generate: {counts} outputs of {name}"
    if dtype == "float32":
        return (
            f"NOT LOSSLESS: only {counts} outputs of {name} are those of transformers' own "
            f"generate (margin {found['largest_margin']:.3g})"
        )
    return (
        f"match rate with transformers' own generate: {found['match_rate']:.0%}, {counts} outputs "
        f"of {name} (margin {found['largest_margin']:.3g})"
    )


def _lossless(found: dict[str, Any] | None) -> str:
    """Count identical outputs, and the margin of the largest difference where there is one."""
    if found is None:
        return "sampled"
    margin = found.get("largest_margin")
    ties = "" if margin is None else f" (margin {margin:.3g})"
    return f"{found['identical']}/{found['of']}{ties}"
