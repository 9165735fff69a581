"""``python -m tests.campaign``: attack the command line for a while, and say what broke.

Every case is drawn by a number, so ``--only models:17`` is that case again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.figures import command_line
from tasc.environment import environment
from tests.campaign.seeds import make

HERE = Path(__file__).parent


def main() -> int:
    """Run the campaign; 1 if anything failed."""
    given = _arguments()
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        home = Path(folder)
        given.keep.mkdir(parents=True, exist_ok=True)
        make(home / "seeds")
        began = time.time()
        logs = [home / f"{i}.log" for i in range(given.jobs)]
        workers = [_worker(given, home, i, log, began) for i, log in enumerate(logs)]
        codes = [worker.wait() for worker in workers]
        outcomes = [
            json.loads(line)
            for log in filter(Path.exists, logs)
            for line in log.open(encoding="utf-8")
        ]
    summary = _summary(outcomes, given, time.time() - began)
    _show(summary)
    if given.json:
        given.json.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    broken = any(fuzzer["failures"] for fuzzer in summary["fuzzers"])
    return int(any(codes) or bool(summary["failures"]) or broken or not outcomes)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="how long to draw new cases")
    parser.add_argument("--jobs", type=int, default=2, help="processes that run cases")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--kinds", help="kinds of cases, with commas between them; default all")
    parser.add_argument(
        "--distributions", action="store_true", help="first every verifier's, at 20,000 sequences"
    )
    parser.add_argument("--only", help="one case again, as models:17")
    parser.add_argument("--json", type=Path, help="where to write the summary")
    parser.add_argument(
        "--fuzzers",
        type=Path,
        default=Path("build/fuzz/summary.json"),
        help="what `make fuzz` found, for the summary",
    )
    parser.add_argument("--keep", type=Path, default=Path("build/campaign"), help="failed cases")
    return parser.parse_args()


def _worker(
    given: argparse.Namespace, home: Path, number: int, log: Path, began: float
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.campaign.worker", "--home", home / f"worker-{number}"]
    command += [
        "--seeds",
        home / "seeds",
        "--log",
        log,
        "--keep",
        given.keep,
        "--first",
        given.seed + number,
    ]
    command += ["--stride", given.jobs, "--until", began + 60 * given.minutes]
    if given.distributions:
        command.append("--distributions")
    for name in ("kinds", "only"):
        if getattr(given, name):
            command += [f"--{name}", getattr(given, name)]
    settings = {"OMP_NUM_THREADS": "1", "LD_PRELOAD": str(_faults(home)), "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen([str(part) for part in command], env={**os.environ, **settings})


def _faults(home: Path) -> Path:
    """Compile what makes calls fail."""
    library = home / "faults.so"
    if not library.exists():
        flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-Wall"]
        command = [os.environ.get("CXX", "g++"), *flags, "-o", library, HERE / "faults.cpp", "-ldl"]
        subprocess.run([str(part) for part in command], check=True)
    return library


def _summary(
    outcomes: list[dict[str, Any]], given: argparse.Namespace, seconds: float
) -> dict[str, Any]:
    failed = [outcome for outcome in outcomes if outcome["problems"]]
    tried = Counter(_family(outcome) for outcome in outcomes)
    wrong = Counter(_family(outcome) for outcome in failed)
    return {
        "command": command_line(),
        "seconds": round(seconds),
        "jobs": given.jobs,
        "tried": sum(tried.values()),
        "failed": len(failed),
        "kinds": {k: {"tried": tried[k], "failed": wrong[k]} for k in sorted(tried)},
        "failures": failed,
        "fuzzers": json.loads(given.fuzzers.read_text()) if given.fuzzers.is_file() else [],
        "distributions": [o["command"] for o in outcomes if _family(o) == "sampling"],
        "environment": environment(),
    }


def _family(outcome: dict[str, Any]) -> str:
    return str(outcome["kind"]).partition("-")[0]  # sampling-3 is one of several of that name


def _show(summary: dict[str, Any]) -> None:
    write = sys.stdout.write
    for kind, counts in summary["kinds"].items():
        write(f"{kind:<12} {counts['tried']:>6} tried {counts['failed']:>5} failed\n")
    for failure in summary["failures"][:40]:
        write(f"{failure['kind']}:{failure['seed']} {failure['command'][:160]}\n")
        write("".join(f"    {problem[:300]}\n" for problem in failure["problems"]))
    for fuzzer in summary["fuzzers"]:
        write(f"{fuzzer['target']}: {fuzzer['executions']:,} executions, {fuzzer['failures']}\n")
    write(f"{summary['tried']} tried, {summary['failed']} failed in {summary['seconds']} s\n")


if __name__ == "__main__":
    sys.exit(main())
