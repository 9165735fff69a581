"""One process of a campaign: draws cases until its time is over, and logs each."""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

from tests.campaign.kinds import PARTS, cases, play
from tests.campaign.process import preload
from tests.campaign.seeds import Seeds
from tests.campaign.verdict import state


def main() -> int:
    """Play cases ``first``, ``first + stride`` …; 1 if the good inputs were changed by any."""
    given = _arguments()
    before = state(given.seeds)
    preload()
    known = cases(Seeds.at(given.seeds), given.home)
    with given.log.open("w", encoding="utf-8", buffering=1) as log:
        for kind, number in _drawn(given, list(known)):
            sandbox = given.home / "sandbox"
            log.write(play(kind, number, known[kind], sandbox, given.keep).to_json() + "\n")
    return int(state(given.seeds) != before)


def _drawn(given: argparse.Namespace, known: list[str]) -> Iterator[tuple[str, int]]:
    """Yield kinds and numbers of cases: one, or the distributions and then others till the end."""
    if given.only:
        kind, _, number = given.only.partition(":")
        yield kind, int(number)
        return
    if given.distributions:
        every = [kind for kind in known if kind.startswith("sampling-")]
        yield from ((kind, 0) for kind in every[given.first % given.stride :: given.stride])
    chosen = given.kinds.split(",") if given.kinds else list(PARTS)
    for number in count(given.first, given.stride):
        if time.time() > given.until:
            return
        yield _kind(number, chosen), number


def _kind(number: int, chosen: list[str]) -> str:
    return Random(number).choices(chosen, [PARTS[kind] for kind in chosen])[0]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.campaign.worker")
    for name in ("home", "seeds", "log", "keep"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("first", "stride"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--until", type=float, required=True)
    parser.add_argument("--distributions", action="store_true")
    parser.add_argument("--kinds")
    parser.add_argument("--only")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
