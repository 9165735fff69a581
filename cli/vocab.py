"""``tasc vocab``: can this model draft for that one, and by which algorithm?"""

from typing import Annotated, Any

import typer

from . import _options as o
from ._console import say


def vocab(
    target: Annotated[str, typer.Argument(help="Target: model or tokenizer folder, or Hub id.")],
    draft: Annotated[str, typer.Argument(help="Drafter: the same; any vocabulary.")],
    data: Annotated[
        str, typer.Option(help="Texts to measure on: a source as other commands take it.")
    ] = "builtin:stdlib-docs",
    prompts: Annotated[int, typer.Option(help="Examples that acceptance is measured on.")] = 20,
    places: Annotated[int, typer.Option(help="Places in the output of each.")] = 8,
    temperature: Annotated[float, typer.Option(help="Of both models' laws.")] = 1.0,
    input_column: o.InputColumn = "input",
    output_column: o.OutputColumn = "output",
    template: o.Template = "{input}\\n",
    config: o.HubConfig = None,
    threads: o.Threads = None,
    split: o.Split = "train",
    limit: Annotated[int, typer.Option(help="Examples to tokenize, drawn by the seed.")] = 1000,
    seed: o.Seed = 0,
    output: o.Output = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Compare two vocabularies and recommend how the one model drafts for the other.

    Where both folders hold a model, expected acceptance is measured, too.
    """
    options = {
        "target": target,
        "draft": draft,
        "prompts": prompts,
        "places": places,
        "temperature": temperature,
        "threads": threads,
        "split": split,
        "limit": limit,
        "seed": seed,
    }
    described = o.data(data, input_column, output_column, template, config)
    done = o.step("vocab", described, options, output=output, force=force)
    if json:
        from ._console import print_json

        print_json(done.result)
        return
    show(done.result)
    say(f"comparison: {done.output / 'vocabularies.json'}")


def show(result: dict[str, Any]) -> None:
    """Print both sides, what they share, and the recommendation."""
    from ._console import table

    sides = [("target", result["target"]), ("drafter", result["draft"])]
    table(
        f"{result['task']['texts']} texts of {result['task']['source']}",
        ["", "tokens", "strings", "longest", "mean bytes", "texts that come back"],
        [
            [
                name,
                f"{side['size']:,}",
                f"{side['strings']:,}",
                f"{side['longest']}",
                f"{side['mean_bytes']:.2f}",
                f"{side['injective']}/{side['tested']}",
            ]
            for name, side in sides
        ],
    )
    for name, side in sides:
        if side["lost"] is not None:
            say(f"{name} does not give back {side['lost'][:60]!r}")
    r = result
    say(f"in both: {r['shared']:,} strings, {r['share']:.1%} of the target's tokens")
    say(
        f"in these texts: {r['used_shared']:,} of {r['used']:,} target tokens, "
        f"{r['said_shared']:.1%} by occurrence; {r['draft_per_target']:.2f} draft tokens each"
    )
    say(
        f"spellings of a target token by the drafter: median {r['spellings_median']:,.0f}, at most "
        f"{r['spellings_max']:,}; none for {r['unreachable']} of {r['spelled']}"
    )
    say(
        f"draft forwards for all spellings of a token: median {r['forwards']:,.0f} "
        "(slrs follows the likely ones)"
    )
    if r["expected_acceptance"]:
        figures = ", ".join(f"{k} {v:.3f}" for k, v in r["expected_acceptance"].items())
        say(f"expected acceptance at temperature {r['temperature']:g}: {figures}")
    best = r["recommended"]
    say(f"recommended: {best['algorithm']} ({best['reason']})")
