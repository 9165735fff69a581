"""What this machine offers: the facts a bug report needs."""

import os
from typing import Any, ClassVar

from tasc.environment import environment
from tasc.options.command import CommandOptions


class DoctorOptions(CommandOptions):
    """Options of ``tasc doctor``: none."""

    command = "doctor"
    flags: ClassVar = ("json",)


def examine() -> dict[str, Any]:
    """Return versions, devices, kernels, memory, and recipes, as JSON values."""
    import torch

    from tasc.backend import cuda
    from tasc.commands.steps import directory

    facts = environment()
    page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    free = os.sysconf("SC_AVPHYS_PAGES")
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "tasc": facts["tasc"],
        "commit": facts["git"] or "unknown",
        "python": facts["python"],
        "packages": facts["packages"],
        "processor": facts["machine"]["processor"],
        "cores": facts["machine"]["cores"],
        "threads": torch.get_num_threads(),
        "memory": {"total GiB": _gib(page * pages), "free GiB": _gib(page * free)},
        "gpus": gpus,
        "kernels": {"native": "built", "cuda": cuda.state()},
        "recipes": sorted(p.stem for p in directory().glob("*.yaml")),
    }


def _gib(size: int) -> float:
    return round(size / 2**30, 1)
