"""What benchmarks of training share: commands that run once, and benches without their texts."""

import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tasc

# small adapters on a small model: 2e-4 hardly moves them; 4 bits only slow a CPU down
TRAINING: tuple[str, ...] = ("--resume", "--merge", "--quantize", "none", "--learning-rate", "3e-3")
TRAINING += ("--batch-size", "32", "--effective-batch", "32")


def made(output: Path, *call: str) -> Path:
    """Run a command of ``tasc`` that makes ``output``, unless it is there; return ``output``."""
    if not output.exists():
        command = str(Path(sys.executable).with_name("tasc"))
        subprocess.run([command, *call, "--output", str(output)], check=True)
    return output


def benched(
    source: dict[str, str], given: Namespace, models: Iterable[str], *kept: str, **more: object
) -> dict[str, Any]:
    """Bench by options ``given`` and ``more``; return what is ``kept``, without all the texts."""
    options = {name: getattr(given, name) for name in ("metrics", "limit", "threads")}
    asked = {"source": source, "models": tuple(models), "warmup": 2, **options, **more}
    results = tasc.bench(tasc.BenchOptions.model_validate(asked)).to_dict()
    for cell in results["cells"]:
        del cell["outputs"]
    return {name: results[name] for name in kept}
