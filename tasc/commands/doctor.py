"""What this machine offers: the facts a bug report needs."""

import os
from typing import Any, ClassVar

from pydantic import Field

from tasc.environment import environment
from tasc.options.command import CommandOptions
from tasc.options.fields import MODEL, DecodingDtype, Device
from tasc.options.references import resolve_model
from tasc.tokenizer.loaded import load_tokenizer


class DoctorOptions(CommandOptions):
    """Options of ``tasc doctor``."""

    command = "doctor"
    flags: ClassVar = ("json",)

    model: str | None = Field(
        None, description=f"{MODEL}, to measure the time T(k) of a step over k tokens."
    )
    device: Device = "auto"


def examine(options: DoctorOptions) -> dict[str, Any]:
    """Return versions, devices, kernels, memory, recipes and T(k), as JSON values."""
    import torch

    from tasc import _native
    from tasc.backend import cuda
    from tasc.commands.steps import names

    facts = environment()
    return {
        "tasc": facts["tasc"],
        "commit": facts["git"] or "unknown",
        "python": facts["python"],
        "packages": facts["packages"],
        "processor": facts["machine"]["processor"],
        "cores": facts["machine"]["cores"],
        "threads": torch.get_num_threads(),
        "memory": {"total GiB": _gib("SC_PHYS_PAGES"), "free GiB": _gib("SC_AVPHYS_PAGES")},
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "kernels": {
            "native": "built",
            "instructions": _native.dense_instructions(),
            "cuda": cuda.state(),
        },
        "recipes": names(),
        **({f"T(k) of {options.model}, ms": _steps(options)} if options.model else {}),
    }


def _steps(options: DoctorOptions) -> dict[DecodingDtype, dict[str, float]]:
    """Return, by dtype and k, the milliseconds of a step over k tokens."""
    from tasc.benchmark.predict import cost_of
    from tasc.models.load import resolve_device
    from tasc.models.packed import can_pack

    _, folder = resolve_model(options.model or "")
    tokenizer = load_tokenizer(folder)
    times: dict[DecodingDtype, dict[str, float]] = {}
    dtypes: list[DecodingDtype] = ["float32", "bfloat16"]
    if can_pack() and resolve_device(options.device) == "cpu":
        dtypes.append("int8")
    for dtype in dtypes:
        cost = cost_of(folder, dtype, options.device, tokenizer)
        steps = zip(cost.sizes, cost.seconds, strict=True)
        times[dtype] = {f"k={size}": round(1000 * seconds, 2) for size, seconds in steps}
    return times


def _gib(pages: str) -> float:
    """Return the size of the pages of memory that the system counts as ``pages``."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages) / 2**30, 1)
