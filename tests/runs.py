"""Runs of pytest in a process of their own, and what they report: for ``tests.anywhere`` and
``tests.versions``."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True)
class Outcome:
    """How many tests passed and were skipped, and which failed."""

    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)  # as pytest takes them, or a reason


def run(
    python: str | Path,
    arguments: Sequence[str],
    workers: int,
    log: Path,
    settings: Mapping[str, str],
) -> Outcome:
    """Run the quick tier with ``arguments`` of pytest under ``python``; its output goes to ``log``.

    ``settings`` are added to the environment variables of this process. A run that ends before it
    has results counts as a failure.
    """
    report = log.with_name(f"{log.name}.xml")
    report.unlink(missing_ok=True)
    # Without the third, pytest waits for ever for the tests of a worker that was killed.
    parallel = ["-n", str(workers), "--dist", "loadfile", "--max-worker-restart", "0"]
    quick = [*parallel, "-m", "not slow"]
    command = [str(python), "-m", "pytest", f"--junitxml={report}", *quick, *arguments]
    with log.open("w") as out:
        code = subprocess.run(
            command, env=os.environ | settings, stdout=out, stderr=subprocess.STDOUT, check=False
        ).returncode
    if not report.exists():
        return Outcome(failed=[f"pytest ended with {code} before it had results: see {log}"])
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [_name(case) for case in cases if _is(case, "failure", "error")]
    skipped = sum(_is(case, "skipped") for case in cases)
    passed = len(cases) - len(failed) - skipped
    if code and not failed:
        failed = [f"pytest ended with {code}: see {log}"]
    return Outcome(passed, skipped, failed)


def _is(case: ElementTree.Element, *outcomes: str) -> bool:
    return any(case.find(outcome) is not None for outcome in outcomes)


def _name(case: ElementTree.Element) -> str:
    """Return the test as pytest takes it."""
    return f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
