"""``tasc bench``: measure models × methods on one decoding loop and report."""

from typing import Annotated, Any

import typer

from . import _options as o


def bench(
    source: o.Source,
    model: Annotated[
        list[str], typer.Option(help="Model folder or Hub id, as PATH or LABEL=PATH; repeatable.")
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(help="ar, tasc-spec, tasc-spec:width=1,budget=8,…; repeatable."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="exact_match, token_accuracy, micro_f1; repeatable.")
    ] = None,
    delimiter: Annotated[str, typer.Option(help="What separates items for micro_f1.")] = ";",
    corpus_split: Annotated[str, typer.Option(help="Split whose outputs drafters know.")] = "train",
    index: Annotated[
        list[str] | None,
        typer.Option(help="Folder of tasc index, as DIR or NAME=DIR, instead; repeatable."),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Longest output, in tokens.")] = 256,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or auto.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    repeats: Annotated[int, typer.Option(help="Passes over all samples.")] = 1,
    warmup: Annotated[int, typer.Option(help="Samples that warm up, unmeasured.")] = 3,
    input_column: o.InputColumn = "input",
    output_column: o.OutputColumn = "output",
    template: o.Template = "{input}\\n",
    config: o.HubConfig = None,
    split: o.Split = "test",
    limit: o.Limit = None,
    seed: o.Seed = 0,
    output: o.Output = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Measure models and methods side by side; writes results.json and report.html."""
    options = {
        "models": model,
        "methods": method or None,
        "metrics": metric or None,
        "delimiter": delimiter,
        "corpus_split": corpus_split,
        "indexes": index or None,
        "max_new_tokens": max_new_tokens,
        "dtype": dtype,
        "device": device,
        "repeats": repeats,
        "warmup": warmup,
        "split": split,
        "limit": limit,
        "seed": seed,
    }
    data = o.data(source, input_column, output_column, template, config)
    done = o.step("bench", data, options, output=output, force=force)
    if json:
        from ._console import print_json

        print_json(done.result)
        return
    show(done.result)
    typer.echo(f"report: {done.output / 'report.html'}")


SHORT = {"exact_match": "exact", "token_accuracy": "tok.acc", "micro_f1": "F1"}


def show(result: dict[str, Any]) -> None:
    """Print the table of cells; ms, tokens and steps are means per output."""
    from ._console import table

    rows = result["cells"]
    metrics = list(rows[0]["quality"])
    columns = ["model", "method", "ms", "speed", "tokens", "steps", "accept", "lossless"]
    table(
        f"{result['task']['source']}: {result['task']['samples']} samples, batch 1, "
        f"{result['settings']['dtype']} on {result['settings']['device']}",
        [*columns, *(SHORT[m] for m in metrics)],
        [
            [
                r["model"],
                r["method"],
                f"{r['ms_per_sample']:.2f}",
                f"{rows[0]['ms_per_sample'] / r['ms_per_sample']:.2f}×",
                f"{r['tokens_per_output']:.2f}",
                f"{r['decoding_steps_per_output']:.2f}",
                f"{r['acceptance_length']:.2f}",
                f"{r['lossless']['identical']}/{r['lossless']['of']}",
                *(f"{r['quality'][m]:.3f}" for m in metrics),
            ]
            for r in rows
        ],
        text_columns=2,
    )
