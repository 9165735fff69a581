"""``tasc doctor``: show versions, devices, kernels and memory."""

from typing import Any

from tasc.commands.doctor import DoctorOptions, examine

from .._console import print_json, table
from .._derive import RunFlags


def run(options: DoctorOptions, flags: RunFlags) -> None:
    """Print versions, devices, kernels, memory, and the times of a model."""
    report = examine(options)
    if flags.json:
        print_json(report)
        return
    rows = [[name, _text(value)] for name, value in report.items()]
    table("tasc doctor", ["property", "value"], rows, text_columns=2)


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        return "\n".join(f"{k} {_text(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    return str(value)
