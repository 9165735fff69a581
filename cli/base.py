"""``tasc base``: train a small base model and its tokenizer from scratch."""

from typing import Annotated

import typer

from . import _options as o
from . import finetune as _finetune
from ._console import say


def base(
    source: o.Source,
    preset: Annotated[str, typer.Option(help="pico, tiny, small, medium or large.")] = "small",
    tokenizer: Annotated[
        str | None, typer.Option(help="File, folder or Hub id: take it instead of training one.")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Tokens.", show_default="the preset's")
    ] = None,
    tokenizer_text: Annotated[
        str, typer.Option(help="What the tokenizer learns from: prompts, or all with the outputs.")
    ] = "prompts",
    epochs: Annotated[float, typer.Option(help="Passes over the text.")] = 3.0,
    minutes: Annotated[float | None, typer.Option(help="Stop after so many minutes.")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak rate.", show_default="the preset's")
    ] = None,
    block: Annotated[int, typer.Option(help="Tokens of a training row.")] = 256,
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
    """Train a Qwen2-architecture model and a byte-level BPE tokenizer; nothing is downloaded."""
    options = {
        "preset": preset,
        "tokenizer": tokenizer,
        "vocabulary": vocabulary,
        "tokenizer_text": tokenizer_text,
        "epochs": epochs,
        "minutes": minutes,
        "learning_rate": learning_rate,
        "block": block,
        "threads": threads,
        "split": split,
        "limit": limit,
        "seed": seed,
    }
    data = o.data(source, input_column, output_column, template, config)
    done = o.step("base", data, options, output=output, force=force, resume=resume)
    if json:
        from ._console import print_json

        print_json(done.result)
        return
    _finetune.show(done.result)
    say(f"model: {done.output}")
