"""``tasc index``: count a corpus once; benches and jobs map the file and share its memory."""

from typing import Annotated, Any

import typer

from . import _options as o
from ._console import say


def index(
    source: o.Source,
    tokenizer: Annotated[str, typer.Option(help="Tokenizer or model folder, file, or Hub id.")],
    n_max: Annotated[int, typer.Option(help="Longest context, in tokens.")] = 6,
    p_min: Annotated[int, typer.Option(help="Drop continuations seen less often.")] = 1,
    discount: Annotated[float, typer.Option(help="Absolute discount of every count.")] = 0.8,
    strength: Annotated[float, typer.Option(help="Pull towards shorter contexts.")] = 1.0,
    mark: Annotated[bool, typer.Option(help="Know where outputs begin.")] = True,
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
    """Save the n-gram index of a source's outputs for bench --index."""
    options = {
        "tokenizer": tokenizer,
        "n_max": n_max,
        "p_min": p_min,
        "discount": discount,
        "strength": strength,
        "mark": mark,
        "split": split,
        "limit": limit,
        "seed": seed,
    }
    data = o.data(source, input_column, output_column, template, config)
    done = o.step("index", data, options, output=output, force=force)
    if json:
        from ._console import print_json

        print_json(done.result)
        return
    show(done.result)
    say(f"index: {done.output}")


def show(result: dict[str, Any]) -> None:
    """Print what was counted."""
    say(
        f"{result['tokens']:,} tokens of {result['outputs']:,} outputs: "
        f"{result['contexts']:,} contexts, {result['bytes']:,} bytes "
        f"({result['bytes_per_token']:.1f} a token), counted in {result['build_seconds']:.2f} s"
    )
