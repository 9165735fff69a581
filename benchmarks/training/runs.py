"""What benchmarks of training share: commands that run once, and benches without their texts."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import tasc

# small adapters on a small model: 2e-4 hardly moves them; 4 bits only slow a CPU down
TRAINING = ("--resume", "--merge", "--quantize", "none", "--learning-rate", "3e-3")
TRAINING += ("--batch-size", "32", "--effective-batch", "32")


def made(output: Path, *call: str) -> Path:
    """Run a command of ``tasc`` that makes ``output``, unless it is there; return ``output``."""
    if not output.exists():
        command = str(Path(sys.executable).with_name("tasc"))
        subprocess.run([command, *call, "--output", str(output)], check=True)
    return output


def benched(options: tasc.BenchOptions, *kept: str) -> dict[str, Any]:
    """Bench, and return what is ``kept`` of the results, without the thousands of texts."""
    results = tasc.bench(options).to_dict()
    for cell in results["cells"]:
        del cell["outputs"]
    return {name: results[name] for name in kept}
