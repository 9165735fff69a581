"""Attack the command line for a while, and say what broke.

Every case is drawn by a number, so ``--only models:17`` is that case again.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.figures import command_line
from tasc.environment import environment
from tests.campaign.kinds import PARTS, cases, play
from tests.campaign.process import preload
from tests.campaign.seeds import Seeds, make
from tests.campaign.verdict import state

FUZZERS = Path("build/fuzz/summary.json")  # what `make fuzz` found


def main() -> int:
    given = _arguments()
    given.keep.mkdir(parents=True, exist_ok=True)
    preload()
    home = Path(tempfile.mkdtemp(prefix="campaign-"))  # forks would end a TemporaryDirectory's
    try:
        seeds = make(home / "seeds")
        before, began = state(home / "seeds"), time.time()
        for job in range(given.jobs):
            if os.fork() == 0:
                _work(given, seeds, home, job)
        statuses = [os.wait()[1] for _ in range(given.jobs)]
        logs = [path.read_text(encoding="utf-8") for path in home.glob("*.log")]
        summary = _summary(logs, given, time.time() - began)
        unchanged = state(home / "seeds") == before
    finally:
        shutil.rmtree(home)
    _show(summary)
    if given.json:
        given.json.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    whole = all(not fuzzer["failures"] for fuzzer in summary["fuzzers"])
    good = unchanged and whole and summary["tried"] and not summary["failed"]
    return int(any(statuses) or not good)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="how long to draw new cases")
    parser.add_argument("--jobs", type=int, default=2, help="processes that run cases")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--kinds", help="kinds of cases, with commas between them; default all")
    parser.add_argument("--rounds", type=int, default=0, help="first, so often each kind's part")
    parser.add_argument(
        "--distributions", action="store_true", help="first every verifier's, at 20,000 sequences"
    )
    parser.add_argument("--only", help="one case again, as models:17")
    parser.add_argument("--json", type=Path, help="where to write the summary")
    parser.add_argument("--keep", type=Path, default=Path("build/campaign"), help="failed cases")
    return parser.parse_args()


def _work(given: argparse.Namespace, seeds: Seeds, home: Path, job: int) -> None:
    """Be one process of the campaign: play cases, and log each. This does not return."""
    code = 1
    try:
        known = cases(seeds, home / f"undisturbed-{job}")
        with (home / f"{job}.log").open("w", encoding="utf-8", buffering=1) as log:
            for kind, number in _drawn(given, job, list(known)):
                outcome = play(kind, number, known[kind], home / f"sandbox-{job}", given.keep)
                log.write(json.dumps(outcome) + "\n")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _drawn(given: argparse.Namespace, job: int, known: list[str]) -> Iterator[tuple[str, int]]:
    """Yield the kinds and numbers of a job's cases: one, or the chosen ones and then others."""
    chosen = given.kinds.split(",") if given.kinds else list(PARTS)
    first: list[tuple[str, int]] = []
    if given.only:
        kind, _, number = given.only.partition(":")
        first.append((kind, int(number)))
    if given.distributions:
        first += [(kind, 0) for kind in known if kind.startswith("sampling-")]
    first += [(k, given.seed + i) for k in chosen for i in range(given.rounds * PARTS[k])]
    yield from first[job :: given.jobs]
    end = time.time() + 60 * given.minutes
    for number in count(given.seed + job, given.jobs):
        if given.only or time.time() > end:
            return
        yield Random(number).choices(chosen, [PARTS[kind] for kind in chosen])[0], number


def _summary(logs: list[str], given: argparse.Namespace, seconds: float) -> dict[str, Any]:
    outcomes = [json.loads(line) for log in logs for line in log.splitlines()]
    failed = [outcome for outcome in outcomes if outcome["problems"]]
    tried, wrong = (Counter(map(_family, some)) for some in (outcomes, failed))
    return {
        "command": command_line(),
        "seconds": round(seconds),
        "jobs": given.jobs,
        "tried": len(outcomes),
        "failed": len(failed),
        "kinds": {k: {"tried": tried[k], "failed": wrong[k]} for k in sorted(tried)},
        "failures": failed,
        "fuzzers": json.loads(FUZZERS.read_text()) if FUZZERS.is_file() else [],
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
