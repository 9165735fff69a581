"""``tasc export``: write a folder for an inference engine."""

from tasc.serving.export import ExportReport

from .._console import say


def show(report: ExportReport) -> None:
    """Print the parts of the export, the start command and the limits of the engine."""
    index, head = report.index, report.head
    drafts = "no drafts (add --index or --data)"
    if index:
        drafts = f"an index of {index.tokens:,} tokens, {index.contexts:,} contexts"
    elif head:
        drafts = "a draft head"
    say(f"{report.label}: {report.name}, {report.vocabulary:,} tokens; {drafts}")
    say(f"  limit: {report.limits}")
    for note in report.notes:
        say(f"  {note}")
    if report.command:
        say(f"Start it with tasc serve, or in the folder with: {report.command}")
