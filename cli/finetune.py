"""``tasc finetune``: QLoRA on a task, with or without new tokens, or a draft head."""

from typing import Annotated, Any

import typer

from . import _options as o
from ._console import say


def finetune(
    source: o.Source,
    model: Annotated[str, typer.Option(help="Model folder or Hub id to start from.")],
    augmented: Annotated[
        str | None, typer.Option(help="Folder written by tasc augment: adds its tokens.")
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Also write a plain model folder, adapter merged in.")
    ] = False,
    draft_head: Annotated[
        bool,
        typer.Option(
            "--draft-head", help="Train a draft head for the model, on the model's own answers."
        ),
    ] = False,
    head: Annotated[
        str,
        typer.Option(help="With --draft-head: eagle, one layer; or medusa, heads side by side."),
    ] = "eagle",
    heads: Annotated[
        int | None,
        typer.Option(
            help="With --head medusa: how many, one for each token ahead.", show_default="4"
        ),
    ] = None,
    epochs: Annotated[float, typer.Option(help="Passes over the examples.")] = 3.0,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Peak learning rate of AdamW.", show_default="2e-4; of a draft head 1e-3"
        ),
    ] = None,
    row_learning_rate: Annotated[
        float | None, typer.Option(help="Peak rate of new tokens' rows.", show_default="the same")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Examples a forward.")] = 8,
    effective_batch: Annotated[
        int | None,
        typer.Option(help="Examples an optimizer step.", show_default="64; of a draft head 16"),
    ] = None,
    max_length: Annotated[int, typer.Option(help="Tokens of prompt and output together.")] = 512,
    max_new_tokens: Annotated[
        int, typer.Option(help="With --draft-head: longest answer, in tokens.")
    ] = 256,
    repetition_penalty: Annotated[
        float,
        typer.Option(help="With --draft-head: of the answers; keeps small models from loops."),
    ] = 1.0,
    validation: Annotated[
        str, typer.Option(help="Split for the loss after each epoch (1,000 examples at most).")
    ] = "validation",
    threads: o.Threads = None,
    resume: o.Resume = False,
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
    """Train LoRA on an NF4 base, new token rows mean-initialised; or a draft head."""
    options = {
        "model": model,
        "augmented": augmented,
        "merge": merge,
        "draft_head": draft_head,
        "head": head,
        "heads": heads,
        "max_new_tokens": max_new_tokens,
        "repetition_penalty": repetition_penalty,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "row_learning_rate": row_learning_rate,
        "batch_size": batch_size,
        "effective_batch": effective_batch,
        "max_length": max_length,
        "validation": None if validation == "validation" else validation,
        "threads": threads,
        "split": split,
        "limit": limit,
        "seed": seed,
    }
    data = o.data(source, input_column, output_column, template, config)
    done = o.step("finetune", data, options, output=output, force=force, resume=resume)
    if json:
        from ._console import print_json

        print_json(done.result)
        return
    show(done.result)
    if draft_head:
        say(f"head: {done.output / 'head'}")
        return
    say(f"adapter: {done.output / 'adapter'}")
    if merge:
        say(f"model: {done.output / 'model'}")


def show(result: dict[str, Any]) -> None:
    """Print what the training did."""
    evaluations = result["evaluations"]
    held_out = f", validation loss {evaluations[-1]['loss']:.3f}" if evaluations else ""
    say(
        f"{result['steps']} steps in {result['seconds']:.0f} s, training loss "
        f"{result['losses'][-1]:.3f}{held_out}, {result['trainable_parameters']:,} of "
        f"{result['total_parameters']:,} parameters trained"
    )
    if result["cut_examples"]:
        say(f"{result['cut_examples']:,} examples were longer than allowed, and cut")
