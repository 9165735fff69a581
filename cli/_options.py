"""The options that commands share, and the one way from options to a finished step."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tasc.recipe.step_config import StepConfig
    from tasc.recipe.steps import Outcome

Source = Annotated[
    str,
    typer.Argument(
        help="builtin:NAME (stdlib-tokens, stdlib-docs), a JSONL/JSON/CSV/Parquet file (also .gz), "
        "a folder with splits, or a Hub id."
    ),
]
InputColumn = Annotated[str, typer.Option(help="Column of the inputs; a list is taken as words.")]
OutputColumn = Annotated[str, typer.Option(help="Column of the outputs; a list is taken as words.")]
Template = Annotated[
    str,
    typer.Option(
        help="Prompt template; {input} and other columns by name, {input:.200} for a beginning."
    ),
]
HubConfig = Annotated[str | None, typer.Option("--config", help="Configuration of a Hub data set.")]
Output = Annotated[
    str | None, typer.Option(help="Artefact folder.", show_default="tasc-out/COMMAND")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing artefact.")]
Seed = Annotated[int, typer.Option(help="Seed of every random choice.")]
Limit = Annotated[int | None, typer.Option(help="Use at most so many examples, drawn by the seed.")]
Split = Annotated[str, typer.Option(help="Split to work on.")]
Threads = Annotated[
    int | None, typer.Option(help="CPU threads of torch; small models are fastest on one.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from a killed run's checkpoint.")]


def step(
    command: str,
    data: dict[str, Any],
    options: dict[str, Any],
    *,
    output: str | None,
    force: bool,
    resume: bool = True,
) -> "Outcome":
    """Check the options, then run the command into its output folder under a progress bar."""
    from tasc.artefact import check_output
    from tasc.recipe.configs import CONFIGS
    from tasc.recipe.steps import carry_out
    from tasc.resume import work_of

    from ._console import bars, note

    folder = place("output", output) or Path("tasc-out") / command
    config = _checked(CONFIGS[command], {"source": data} | options)
    check_output(folder, force=force)
    try:
        with bars() as progress:
            return carry_out(config, folder, force=force, resume=resume, progress=progress)
    except KeyboardInterrupt:
        if work_of(folder).exists():
            note("a checkpoint was kept: the same command with --resume goes on")
        raise


def _checked(kind: "type[StepConfig]", values: dict[str, Any]) -> "StepConfig":
    from pydantic import ValidationError

    from tasc.errors import InputError
    from tasc.recipe.explain import explain

    try:
        return kind(**{k: v for k, v in values.items() if v is not None})
    except ValidationError as error:
        command = "bench --tune" if kind.command == "tune" else kind.command
        found = "; ".join(explain(error.errors()))
        raise InputError(
            f"tasc {command}: {found}; see tasc {command.split()[0]} --help"
        ) from error


def place(option: str, text: str | None) -> Path | None:
    """Return the folder that an option names, None where left out; refuse an empty one."""
    from tasc.errors import InputError
    from tasc.places import expanded

    if text is None:
        return None
    if not text.strip():
        raise InputError(f"--{option} is empty: name a folder, or leave --{option} out")
    return expanded(Path(text))


def data(
    path: str, input_column: str, output_column: str, template: str, config: str | None
) -> dict[str, Any]:
    """Collect the options that describe a source."""
    return {
        "path": path,
        "input_column": input_column,
        "output_column": output_column,
        "template": template.replace("\\n", "\n"),  # a shell makes newlines hard to type
        "config": config,
    }
