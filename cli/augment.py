"""``tasc augment``: add the task's n-grams to a tokenizer."""

from typing import Annotated, Any

import typer

from . import _options as o


def augment(
    source: o.Source,
    tokenizer: Annotated[str, typer.Option(help="Tokenizer or model folder, file, or Hub id.")],
    budget: Annotated[int, typer.Option(help="New tokens.")] = 500,
    n_max: Annotated[int, typer.Option(help="Longest n-gram merged at once.")] = 4,
    pcs: Annotated[float, typer.Option(help="Threshold of the prefix collision score.")] = 0.05,
    conditional: Annotated[
        bool, typer.Option("--conditional", help="Prefix collisions given the preceding tokens.")
    ] = False,
    export: Annotated[
        str, typer.Option(help="pretoken (boundary-safe) or added (the paper's way).")
    ] = "pretoken",
    min_gain: Annotated[
        float, typer.Option(help="Stop before a token that saves less than this share of tokens.")
    ] = 0.0,
    protect: Annotated[
        list[str] | None,
        typer.Option(help="No new token may hold this text, as { or \\n; repeatable."),
    ] = None,
    held_out: Annotated[
        str, typer.Option(help="Split to measure the compression on, where the source has it.")
    ] = "validation",
    input_column: o.InputColumn = "input",
    output_column: o.OutputColumn = "output",
    template: o.Template = "{input}\\n",
    config: o.HubConfig = None,
    split: o.Split = "train",
    limit: o.Limit = None,
    seed: o.Seed = 0,
    output: o.Output = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Choose n-grams by merge reward, drop colliding ones, save a plain tokenizer folder."""
    options = {
        "tokenizer": tokenizer,
        "budget": budget,
        "n_max": n_max,
        "pcs": pcs,
        "conditional": conditional,
        "export": export,
        "min_gain": min_gain,
        "protect": [text.replace("\\n", "\n") for text in protect] if protect else None,
        "held_out": None if held_out == "validation" else held_out,
        "split": split,
        "limit": limit,
        "seed": seed,
    }
    data = o.data(source, input_column, output_column, template, config)
    done = o.step("augment", data, options, output=output, force=force)
    if json:
        from ._console import print_json

        print_json(done.result)
        return
    show(done.result)
    typer.echo(f"tokenizer: {done.output}")


def show(result: dict[str, Any]) -> None:
    """Print what the saved tokenizer reaches beside what the search predicted."""
    from ._console import table

    sides = [("train", result["train"]), ("held out", result["held_out"])]
    table(
        f"{result['added']:,} new tokens ({result['export']}), vocabulary {result['size']:,}",
        ["outputs", "tokens before", "predicted", "reached", "shorter", "bytes/token"],
        [
            [
                name,
                f"{side['tokens_per_output']['before']:.2f}",
                f"{side['tokens_per_output']['predicted']:.2f}",
                f"{side['tokens_per_output']['reached']:.2f}",
                f"{side['ratio']:.2f}×",
                " → ".join(f"{side['bytes_per_token'][k]:.2f}" for k in ("before", "reached")),
            ]
            for name, side in sides
            if side
        ],
    )
    excluded = ", ".join(f"{n} {why}" for why, n in result["excluded"].items() if n) or "none"
    typer.echo(
        f"H2 {result['h2']['before']:.2f} → {result['h2']['after']:.2f} bits; rejected by PCS: "
        f"{result['rejected']}; excluded: {excluded}; dead: {result['dead']}"
    )
