"""Run every fuzzer for a number of executions; write what came of it as JSON. See `make fuzz`."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Longest inputs: a block or run of a few hundred words; arrays of a few dozen numbers.
LENGTHS = {"index": 4096, "runs": 512}
OTHERS = 256
LIMITS = ("-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=256", "-len_control=0")
KINDS = ("crash", "leak", "timeout", "oom", "slow-unit")


def main() -> int:
    """Return 1 when any fuzzer found something, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the fuzzers were built")
    parser.add_argument("--runs", type=int, default=1_000_000, help="executions of each")
    parser.add_argument("--only", nargs="*", default=[], help="names, such as index")
    options = parser.parse_args()
    found = sorted((options.folder / "kernels").glob("*_fuzz"))
    names = {path.name.removesuffix("_fuzz"): path for path in found}
    chosen = options.only or list(names)
    results = []
    for name in chosen:
        if name not in names:
            sys.exit(
                f"{options.folder} holds no fuzzer named {name}: give one of {', '.join(names)}"
            )
        results.append(fuzz(name, names[name], options.folder / "found" / name, options.runs))
        sys.stdout.write(json.dumps(results[-1]) + "\n")
        sys.stdout.flush()
        (options.folder / "summary.json").write_text(json.dumps(results, indent=2) + "\n")
    return int(any(result["failures"] for result in results))


def fuzz(name: str, program: Path, folder: Path, runs: int) -> dict[str, Any]:
    """Run one fuzzer; its corpus and what fails lie in ``folder``, its output in ``folder``/log."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    length = LENGTHS.get(name, OTHERS)
    command = [str(program), f"-runs={runs}", f"-max_len={length}", *LIMITS]
    command += [f"-artifact_prefix={folder}/", "-print_final_stats=1", str(corpus)]
    environment = {**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=16"}
    begin = time.perf_counter()
    with (folder / "log").open("w") as log:
        code = subprocess.run(command, stdout=log, stderr=log, env=environment).returncode
    seconds = time.perf_counter() - begin
    said = re.findall(r"number_of_executed_units: *(\d+)", (folder / "log").read_text())
    failures = [str(p) for p in sorted(set(folder.iterdir()) - before) if p.name.startswith(KINDS)]
    if code and not failures:
        failures = [f"exit code {code}: see {folder / 'log'}"]
    executions = int(said[-1]) if said else 0
    return {
        "target": name,
        "executions": executions,
        "seconds": round(seconds, 1),
        "failures": failures,
    }


if __name__ == "__main__":
    sys.exit(main())
